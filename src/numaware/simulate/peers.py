"""The rules of other NUMA-aware schedulers in the lab, each on top of the node totals that it builds on.

How the rules themselves work is in `schedule/peers`; here they get their knowledge and are joined with the scores that
these schedulers use besides. Where a project does not say how it weighs them, they count alike.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from numaware.diagnose.reason import Reason
from numaware.schedule.cluster import Cluster, Member
from numaware.schedule.peers import kai, koordinator, over_reserve, volcano
from numaware.schedule.peers.filtering import filter_node
from numaware.schedule.peers.score import Strategy, score_node
from numaware.schedule.peers.zones import Topology
from numaware.schedule.shares import Share
from numaware.simulate.ranking import Judgement, Rule
from numaware.simulate.totals import TOP, balanced, least_allocated, tightest
from numaware.simulate.traces import SECOND
from numaware.simulate.views import numa_info_of, topology_of
from numaware.workload.pod import Pod
from numaware.workload.scheduling import VOLCANO_POLICY

# The shortest period that the plugin's documentation advises.
RESYNC = 5 * SECOND

_NOT_ALIGNED = Reason("not-aligned")


class SchedulerPlugins(Rule):
    """kube-scheduler with NodeResourceTopologyMatch: LeastAllocated, and the OverReserve cache.

    Every placed pod is taken from all zones of its node until the next resync, when the node's report replaces the copy.
    """

    lags = True

    def __init__(self, cluster: Cluster) -> None:
        self._cache = {member.name: topology_of(member.node) for member in cluster}
        self._stale: dict[str, Member] = {}
        self._next = RESYNC

    def knows(self, member: Member) -> Hashable:
        return tuple(zone.available for zone in self._cache[member.name].zones)

    def judge(self, member: Member, pod: Pod, ways: Sequence[Share | None]) -> Judgement:
        known = self._cache[member.name]
        status = filter_node(known, frozenset(member.allocatable), pod)
        if status.code != "Success":
            return Judgement(0, reasons=_quoted(*status.reasons[:1]))
        score = least_allocated(member, pod) + balanced(member, pod) + score_node(known, pod, Strategy())
        return Judgement(score, tightest(ways))

    def bound(self, pod: Pod, member: Member) -> None:
        self._cache[member.name] = over_reserve.assume(self._cache[member.name], [pod])
        self._stale[member.name] = member

    def released(self, member: Member) -> None:
        self._stale[member.name] = member

    def passed(self, now: int) -> Sequence[Member]:
        if now < self._next:
            return ()
        self._next = now - now % RESYNC + RESYNC
        refreshed = list(self._stale.values())
        self._stale = {}
        for member in refreshed:
            self._cache[member.name] = topology_of(member.node)
        return refreshed


class Volcano(Rule):
    """Volcano with its numa-aware plugin: CPUs only, container by container.

    Its score compares the NUMA nodes a task would touch with the worst candidate's; here the worst is the machine with
    most NUMA nodes in the cluster, so that one node's score does not hang on another's.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._most = max(len(member.node.kubelet.layout.ids) for member in cluster)

    def judge(self, member: Member, pod: Pod, ways: Sequence[Share | None]) -> Judgement:
        info = numa_info_of(member.node)
        task = volcano.Task(pod, pod.scheduling.annotation(VOLCANO_POLICY))
        fit = volcano.predicate(info, task)
        if not fit.fits:
            return Judgement(0, reasons=_quoted(fit.reason))
        score = least_allocated(member, pod) + balanced(member, pod)
        if task.has_policy and fit.cpus is not None:
            touched = len({cpu.numa for cpu in info.cpus if fit.cpus >> cpu.id & 1})
            score += TOP - TOP * touched // self._most
        return Judgement(score, tightest(ways))


class Kai(Rule):
    """NVIDIA KAI-Scheduler with its numa plugin: fewest zones first, then packed, as is its default for nodes."""

    def judge(self, member: Member, pod: Pod, ways: Sequence[Share | None]) -> Judgement:
        placement = kai.place(topology_of(member.node), pod, ignored=_unmanaged(member))
        if not placement.admitted:
            return Judgement(0, reasons=(_NOT_ALIGNED,))
        packed = TOP - least_allocated(member, pod)
        return Judgement((TOP + 1) * kai.score(placement) + packed, tightest(ways))


class Koordinator(Rule):
    """Koordinator's NodeNUMAResource with its default strategies, on kubelets that decide for themselves."""

    def judge(self, member: Member, pod: Pod, ways: Sequence[Share | None]) -> Judgement:
        topology: Topology = topology_of(member.node)
        placement = koordinator.place(topology, pod)
        if not placement.admitted:
            return Judgement(0, reasons=(_NOT_ALIGNED,))
        score = least_allocated(member, pod) + balanced(member, pod) + koordinator.score(topology, placement)
        return Judgement(score, tightest(ways))


def _quoted(*words: str) -> tuple[Reason, ...]:
    return tuple(Reason("quoted", (text,)) for text in words)


def _unmanaged(member: Member) -> frozenset[str]:
    """What an administrator of KAI lists as ignored: resources whose kubelet manager is off."""
    kubelet = member.node.kubelet
    names = set() if kubelet.cpus else {"cpu"}
    return frozenset(names if kubelet.memory else names | {"memory"})
