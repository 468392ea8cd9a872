"""The rules of other NUMA-aware schedulers in the lab, each on top of the node totals that it builds on.

How the rules themselves work is in `schedule/peers`; here they get their knowledge and are joined with the scores that
these schedulers use besides. Where a project does not say how it weighs them, they count alike.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from numaware.diagnose.reason import Reason
from numaware.schedule.cluster import Cluster, Member
from numaware.schedule.node_facts import pod_requests
from numaware.schedule.peers import kai, koordinator, over_reserve, volcano
from numaware.schedule.peers.filtering import filter_node
from numaware.schedule.peers.requests import pod_request
from numaware.schedule.peers.score import Strategy, score_node
from numaware.schedule.room import WHOLE, gpu_resource
from numaware.schedule.shares import Share, wanted_share
from numaware.simulate.ranking import Head, Judgement, Rule
from numaware.simulate.totals import TOP, balanced, least_allocated, tightest
from numaware.simulate.traces import SECOND
from numaware.simulate.views import numa_info_of, topology_of
from numaware.twin.account import free_devices
from numaware.workload.pod import NANO, Pod
from numaware.workload.qos import qos_class
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
    """NVIDIA KAI-Scheduler with its numa plugin switched on and its default placement strategy, binpack.

    A node's points are those of its tier plus up to 9 for being full, measured against the emptiest and the fullest node
    of the cluster at that moment.
    """

    by_name = True

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._gpus = frozenset(name for member in cluster if (name := gpu_resource(member.node)))
        kubelets = {member.node.kubelet: member for member in cluster}
        self._reported = frozenset(
            name
            for kubelet, member in kubelets.items()
            if kubelet.config.topology_policy != "none"
            for name in kai.reported_by(topology_of(member.node), _unmanaged(member))
        )

    def judge(self, member: Member, pod: Pod, ways: Sequence[Share | None]) -> Judgement:
        topology, share = topology_of(member.node), tightest(ways)
        placement = kai.place(topology, pod, ignored=_unmanaged(member))
        if not placement.admitted:
            return Judgement(0, reasons=(_NOT_ALIGNED,))
        wants_gpus = self._wants_gpus(pod)
        tier = kai.type_score(wants_gpus=wants_gpus, has_gpus=gpu_resource(member.node) is not None)
        if share is not None and share.left < WHOLE:
            tier += kai.SHARED
        scored = qos_class(pod) == "Guaranteed" or kai.asks_for_devices(kai.request_of(pod), self._reported)
        numa = kai.numa_score(placement, len(topology.zones)) if scored else 0
        return Judgement(-_free(member, gpus=wants_gpus), share, tier=numa + tier)

    def best_tier(self, heads: Mapping[float, Head], pod: Pod) -> float:
        best, second = sorted(heads, reverse=True)[:2]
        if best - second > kai.PACKED:
            return best
        gpus = self._wants_gpus(pod)
        having = [member for member in self._cluster if not gpus or gpu_resource(member.node)]
        free = [_free(member, gpus=gpus) for member in having]
        least, most = min(free), max(free)
        return min(
            heads,
            key=lambda tier: (-tier - kai.packing_score(heads[tier][0], least, most), heads[tier][1]),
        )

    def _wants_gpus(self, pod: Pod) -> bool:
        return bool(wanted_share(pod)) or any(
            number and name in self._gpus for name, number in pod_requests(pod)
        )


class Koordinator(Rule):
    """Koordinator's NodeNUMAResource with its default strategies, on kubelets that decide for themselves.

    Nodes carry the label that tells it the kubelet's policy, and its records of who holds what are true.
    """

    def judge(self, member: Member, pod: Pod, ways: Sequence[Share | None]) -> Judgement:
        topology, request = topology_of(member.node), pod_request(pod)
        outcome = koordinator.place(topology, request)
        if not outcome.placement.admitted:
            return Judgement(0, reasons=(_NOT_ALIGNED,))
        own = koordinator.score(outcome, topology, request, lambda: _totals(member))
        return Judgement(own + least_allocated(member, pod) + balanced(member, pod), tightest(ways))


def _totals(member: Member) -> koordinator.Totals:
    """What the whole node has of CPU and memory, and what is asked of it, in nano-units."""
    scale = {"cpu": NANO // 1000, "memory": NANO}
    room = {name: member.allocatable.get(name, 0) * grain for name, grain in scale.items()}
    return room, {name: member.load.used.get(name, 0) * grain for name, grain in scale.items()}


def _free(member: Member, *, gpus: bool) -> int:
    """What KAI packs by: GPUs that nobody uses, or thousandths of CPUs that nobody has asked for."""
    if gpus:
        gpu = gpu_resource(member.node)
        return free_devices(member.node, gpu).bit_count() if gpu else 0
    return member.allocatable.get("cpu", 0) - member.load.used.get("cpu", 0)


def _quoted(*words: str) -> tuple[Reason, ...]:
    return tuple(Reason("quoted", (text,)) for text in words)


def _unmanaged(member: Member) -> frozenset[str]:
    """What an administrator of KAI lists as ignored: resources whose kubelet manager is off."""
    kubelet = member.node.kubelet
    names = set() if kubelet.cpus else {"cpu"}
    return frozenset(names if kubelet.memory else names | {"memory"})
