"""Fragmentation gradient descent (Weng et al., USENIX ATC 2023), as published: per node, blind to NUMA nodes.

For every typical pod, the idle GPU capacity of a node that the pod cannot use is a fragment: all of it where the pod
does not fit at all, else what is left on GPUs too full for it. Weighted by how often such pods come, the sum is the
fragmentation F of the node, and a pod goes where F grows least. The typical pods are those of the trace, known
beforehand, as in the paper.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence

from numaware.schedule.cluster import Member
from numaware.schedule.node_facts import pod_requests
from numaware.schedule.room import SHARE_RESOURCE, WHOLE, gpu_resource, numa_rooms
from numaware.schedule.shares import Share, wanted_share
from numaware.simulate.ranking import Judgement, Rule
from numaware.workload.pod import Pod

# What is left of each GPU in thousandths, ascending, used-up ones left out.
Gpus = tuple[int, ...]


class Typical:
    """The typical pods in groups that ask for the same GPUs, each with its CPU requests and how many ask for no more."""

    def __init__(self, pods: Iterable[Pod], gpu: str) -> None:
        seen: dict[tuple[int, int], Counter[int]] = {}
        self.total = 0
        for pod in pods:
            requests = dict(pod_requests(pod))
            share = requests.get(SHARE_RESOURCE, 0)
            need = (1, share) if share else (requests.get(gpu, 0), WHOLE)
            seen.setdefault(need, Counter())[requests.get("cpu", 0)] += 1
            self.total += 1
        self.needs = sorted(seen)
        # All CPU requests there are, so that two amounts between the same two requests count as one.
        self.steps = sorted({cpu for counts in seen.values() for cpu in counts})
        self._running = [
            [sum(count for cpu, count in seen[need].items() if cpu <= step) for step in self.steps]
            for need in self.needs
        ]
        self._usable: dict[Gpus, tuple[int, ...]] = {}
        self._sums: dict[tuple[Gpus, int], int] = {}

    def fragments(self, gpus: Gpus, cpu: int) -> int:
        """F of a node with these GPUs and thousandths of CPU left, times `total`."""
        step = bisect_right(self.steps, cpu)
        known = self._sums.get((gpus, step))
        if known is None:
            usable = self._usable.get(gpus)
            if usable is None:
                usable = self._usable[gpus] = tuple(_usable(gpus, *need) for need in self.needs)
            served = (
                sum(amount * running[step - 1] for amount, running in zip(usable, self._running, strict=True))
                if step
                else 0
            )
            known = self._sums[gpus, step] = sum(gpus) * self.total - served
        return known


def _usable(gpus: Gpus, count: int, milli: int) -> int:
    """What of the idle GPUs a pod can use; a pod without GPUs can use none, so to it they are all fragments."""
    if not count:
        return 0
    fitting = [left for left in gpus if left >= milli]
    return sum(fitting) if len(fitting) >= count else 0


class GradientDescent(Rule):
    """FGD as a rule: 100 times the sigmoid of how much F falls, in GPUs."""

    def __init__(self, typical: Typical) -> None:
        self.typical = typical

    def judge(self, member: Member, pod: Pod, ways: Sequence[Share | None]) -> Judgement:
        gpus = left_of(member)
        free = member.allocatable.get("cpu", 0) - member.load.used.get("cpu", 0)
        after = free - dict(pod_requests(pod)).get("cpu", 0)
        before = self.typical.fragments(gpus, free)
        gpu = gpu_resource(member.node) or ""
        best: tuple[int, Share | None] | None = None
        for share in sorted(ways, key=lambda way: (way.left, way.zone) if way else (0, 0)):
            left = list(gpus)
            if share is not None:
                left.remove(share.left)
                if share.left > wanted_share(pod):
                    left.append(share.left - wanted_share(pod))
            else:
                for _ in range(dict(pod_requests(pod)).get(gpu, 0)):
                    left.remove(WHOLE)
            score = self._score(before, self.typical.fragments(tuple(sorted(left)), after))
            if best is None or score > best[0]:
                best = score, share
        score, share = best or (0, None)
        return Judgement(score, share)

    def _score(self, before: int, after: int) -> int:
        fall = (before - after) / (WHOLE * max(1, self.typical.total))
        return int(100 / (1 + math.exp(-fall)))


def left_of(member: Member) -> Gpus:
    """What is left of all GPUs of a node."""
    return tuple(sorted(left for zone in numa_rooms(member.node, member.load.shares) for left in zone.gpus))
