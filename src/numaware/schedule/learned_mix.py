"""Which pods come: counted by kind, and turned into the mix that scores go by when their number has doubled."""

from __future__ import annotations

from collections import Counter

from numaware.schedule.pod_kinds import Kind
from numaware.schedule.stranding import Mix, Need, need_of
from numaware.workload.pod import Pod


class LearnedMix:
    """Counts pods and the GPUs of nodes; an engine asks for the mix before it scores."""

    def __init__(self) -> None:
        # How many pods of each kind were seen, and one of each.
        self._seen: Counter[Kind] = Counter()
        self._samples: dict[Kind, Pod] = {}
        self._count = 0
        # How many members have GPUs of which name, and the name that counts: what most have, the first of several.
        self._gpus: Counter[str] = Counter()
        self._gpu = ""
        # Whether the mix that was given out before is not that of the pods that have come.
        self.outdated = False

    def count_pod(self, pod: Pod, kind: Kind) -> None:
        """One pod more has come. To score everything anew stays a small part of all work."""
        self._count += 1
        self._seen[kind] += 1
        if kind not in self._samples:
            self._samples[kind] = pod
        if self._count & (self._count - 1) == 0:
            self.outdated = True

    def count_gpus(self, gpu: str | None, number: int) -> None:
        """A node with such GPUs has come (1) or gone (-1). What pods want of GPUs may be another resource then."""
        if gpu is None:
            return
        self._gpus[gpu] += number
        most = min(self._gpus, key=lambda name: (-self._gpus[name], name))
        before, self._gpu = self._gpu, most if self._gpus[most] else ""
        if before != self._gpu and self._seen:
            self.outdated = True

    def renewed(self) -> Mix:
        """The mix of the pods that were counted."""
        self.outdated = False
        needs: Counter[Need] = Counter()
        for kind, count in self._seen.items():
            needs[need_of(self._samples[kind], self._gpu)] += count
        return Mix(needs)
