"""Rules that know node totals only: kube-scheduler without plugins, best fit, and chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from numaware.schedule.cluster import Cluster, Member
from numaware.schedule.node_facts import pod_requests
from numaware.schedule.room import SHARE_RESOURCE, WHOLE, gpu_resource, numa_rooms
from numaware.schedule.shares import Share
from numaware.simulate.ranking import Judgement, Rule
from numaware.workload.pod import Pod

TOP = 100


def tightest(ways: Sequence[Share | None]) -> Share | None:
    """The shared GPU with least left that will do, the lowest zone of equals: how sharing plugins pack by default."""
    shares = [share for share in ways if share is not None]
    return min(shares, key=lambda share: (share.left, share.zone)) if shares else None


def asked_after(member: Member, pod: Pod, resource: str) -> tuple[int, int]:
    """What would be requested of a node with the pod on it, and what could be."""
    used = member.load.used.get(resource, 0) + dict(pod_requests(pod)).get(resource, 0)
    return used, member.allocatable.get(resource, 0)


def least_allocated(member: Member, pod: Pod) -> int:
    """kube-scheduler's NodeResourcesFit with its default strategy: how much CPU and memory stays free, of 100."""
    marks = [
        (room - used) * TOP // room if room else 0
        for used, room in (asked_after(member, pod, name) for name in ("cpu", "memory"))
    ]
    return sum(marks) // len(marks)


def balanced(member: Member, pod: Pod) -> int:
    """kube-scheduler's NodeResourcesBalancedAllocation: how alike CPU and memory are used, of 100."""
    shares = [
        used * TOP // room if room else TOP
        for used, room in (asked_after(member, pod, name) for name in ("cpu", "memory"))
    ]
    # The standard deviation of two numbers is half their difference.
    return TOP - abs(shares[0] - shares[1]) // 2


class NodeTotals(Rule):
    """kube-scheduler as it comes: amounts per node, the emptiest and most evenly used first, blind to NUMA nodes."""

    def judge(self, member: Member, pod: Pod, ways: Sequence[Share | None]) -> Judgement:
        return Judgement(least_allocated(member, pod) + balanced(member, pod), tightest(ways))


class BestFit(Rule):
    """The node with least CPU and GPU left afterwards, each measured against the largest node."""

    def __init__(self, cluster: Cluster) -> None:
        self.largest: Mapping[str, int] = {
            name: max(dict(member.facts.allocatable).get(name, 0) for member in cluster)
            for name in ("cpu", SHARE_RESOURCE)
        }

    def judge(self, member: Member, pod: Pod, ways: Sequence[Share | None]) -> Judgement:
        left = {}
        used, room = asked_after(member, pod, "cpu")
        left["cpu"] = room - used
        gpu = gpu_resource(member.node)
        if gpu is not None:
            whole, count = asked_after(member, pod, gpu)
            left[SHARE_RESOURCE] = WHOLE * (count - whole) - asked_after(member, pod, SHARE_RESOURCE)[0]
        parts = [TOP**2 * amount // self.largest[name] for name, amount in left.items() if self.largest[name]]
        return Judgement(2 * TOP**2 - sum(parts), tightest(ways))


class Chance(Rule):
    """Any node with room, any GPU with room."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance

    def judge(self, member: Member, pod: Pod, ways: Sequence[Share | None]) -> Judgement:  # noqa: ARG002 - any pod
        parts = numa_rooms(member.node, member.load.shares)
        alike = [parts[share.zone].gpus.count(share.left) if share else 1 for share in ways]
        return Judgement(0, self.chance.choices(ways, alike)[0])

    def pick(self, fitting: Sequence[str]) -> str | None:
        return self.chance.choice(fitting)
