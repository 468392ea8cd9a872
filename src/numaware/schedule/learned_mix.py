"""Which pods come: counted by kind. Scores go by them anew when their number has doubled."""

from __future__ import annotations

from collections import Counter

from numaware.schedule.cluster import Cluster, Member
from numaware.schedule.need import Need, need_of
from numaware.schedule.outlook import is_large
from numaware.schedule.pod_kinds import Kind
from numaware.schedule.room import gpu_resource
from numaware.workload.pod import Pod

# For small clusters.
_FEW_CHANGES = 1024


class LearnedMix:
    """Counts pods and the GPUs of nodes; an engine asks for the sum before it scores."""

    def __init__(self) -> None:
        # How many pods of each kind were seen, and one of each.
        self._seen: Counter[Kind] = Counter()
        self._samples: dict[Kind, Pod] = {}
        self._count = 0
        # How many members have GPUs of which name, and the name that counts: what most have, the first of several.
        self._gpus: Counter[str] = Counter()
        self._gpu = ""
        # Where the last survey was, and how many members and whole nodes counted when news were last given out.
        self._surveyed, self._described = 0, -1
        self._machines = 0, 0
        # How many GPUs members have, and those of which nobody has any.
        self._sizes: dict[str, int] = {}
        self._whole: set[str] = set()
        # Whether what was given out before is not what has come; nothing was given out yet.
        self.outdated = True

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

    def survey(self, cluster: Cluster) -> None:
        """Look now and then how many large nodes have all their GPUs free: scores go by what is scarce, and that may be those.

        After as many changes as a sixteenth of the members. It counts as news when it is less than seven tenths of what it
        was, or the other way round; likewise the number of members.
        """
        changes = cluster.serial - self._surveyed
        if 16 * changes < len(cluster) + _FEW_CHANGES and self._described == cluster.described:
            return
        for name in cluster.by_name if self._described < 0 else cluster.changed_since(self._surveyed):
            self._look_at(name, cluster.by_name.get(name))
        self._surveyed, self._described = cluster.serial, cluster.described
        sizes, largest = self._sizes, max(self._sizes.values(), default=0)
        machines = len(cluster), sum([is_large(sizes[name], largest) for name in self._whole])
        if any(10 * min(pair) < 7 * max(pair) for pair in zip(self._machines, machines, strict=True)):
            self.outdated = True
        if self.outdated:
            self._machines = machines

    def _look_at(self, name: str, member: Member | None) -> None:
        """Keep in mind how many GPUs a node has, and whether somebody has one of them."""
        self._whole.discard(name)
        gpu = None if member is None else gpu_resource(member.node)
        if member is None or gpu is None:
            self._sizes.pop(name, None)
            return
        self._sizes[name] = member.node.kubelet.devices.inventories[gpu].healthy.bit_count()
        if not member.node.state.device.taken.get(gpu, 0):
            self._whole.add(name)

    def renewed(self) -> Counter[Need]:
        """What the pods that were counted take, and how often each came."""
        self.outdated = False
        needs: Counter[Need] = Counter()
        for kind, count in self._seen.items():
            needs[need_of(self._samples[kind], self._gpu)] += count
        return needs
