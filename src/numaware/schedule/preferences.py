"""Which of the nodes that fit, once what the pod and others would rather have is counted in.

A pod that owns nothing of a node is placed as kube-scheduler would place it: all of its default scores with their weights,
and where they tie the profile. For a pod with CPUs or devices of its own the profile comes first (aligned best, then least
stranded) and what it asks for itself is added to it; what kube-scheduler does unasked (spreading replicas) is left out,
because it is what breaks up the room that large jobs need. Of nodes that are equal in all this, the one that has the
images is taken.

Called by `Engine.decide` with the nodes that fit. The engine asks first whether anybody wishes for anything: most pods do
not, and are placed without looking at every node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec.structs import replace

from numaware.schedule.answer import Answer
from numaware.schedule.cluster import Cluster, Load, Member
from numaware.schedule.filters import InterPodRules, SoftSpread, VolumeRules
from numaware.schedule.node_facts import NodeFacts, pod_requests
from numaware.schedule.pod_kinds import Kind
from numaware.schedule.preference_scores import TOP as BEST
from numaware.schedule.preference_scores import (
    balance_gained,
    balanced_score,
    least_allocated_score,
    neighbour_scores,
    node_affinity_scores,
    taint_scores,
)
from numaware.schedule.score import TOP
from numaware.schedule.shares import wanted_share
from numaware.workload.demand import Amounts
from numaware.workload.pod import Container, Pod, Resources

# A point of a preference (0 to 100) against the engine's own score (0 to TOP).
_PREFERENCE = 3 * TOP // 1000
# KUBE-SCHEDULER: the weights of its default plugins (getDefaultPlugins).
_TAINTS, _NODE_AFFINITY, _SPREAD, _POD_AFFINITY = 3, 2, 2, 2
_SCORED = ("cpu", "memory")
# KUBE-SCHEDULER: which releases count how balanced a node becomes, not how balanced it is, and free space for volumes.
_GAIN_SINCE, _SPACE_SINCE = 36, 37
# Kinds of pods whose points are remembered.
_MOST_KINDS = 64
# KUBE-SCHEDULER: what a container counts for in scores that says nothing (DefaultMilliCPURequest, DefaultMemoryRequest).
_UNSAID = {"cpu": 100_000_000, "memory": (200 << 20) * 1_000_000_000}

Fitting = Sequence[tuple[Member, Answer]]
# CPUs and memory that the pods on a node count for: those that say nothing at a default, and as requested.
_Asked = tuple[tuple[int, int], tuple[int, int]]


class Preferences:
    """Chooses on one cluster; remembers what the pods on each member ask for until that changes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._asked: dict[str, tuple[Load, _Asked]] = {}
        # What pods that ask for the same find on each member: points for its resources.
        self._points: dict[_Asked, dict[str, tuple[Load, NodeFacts, int]]] = {}

    def forget(self, name: str) -> None:
        """The member is gone; names of nodes that come and go need not come again."""
        self._asked.pop(name, None)
        for known in self._points.values():
            known.pop(name, None)

    def spread(self, pod: Pod, kind: Kind) -> SoftSpread | None:
        """How evenly the pod would like to be spread, None if nobody minds."""
        placed = self._cluster.placed_pods
        if pod.scheduling.spread:
            soft = tuple(rule for rule in pod.scheduling.spread if not rule.hard)
            return placed.soft_spread(pod, soft, every_key=True) if soft else None
        if kind.workload != "low" or wanted_share(pod):
            return None
        rules = self._cluster.selectors.default_spread(pod)
        return placed.soft_spread(pod, rules, every_key=False) if rules else None

    def totals(
        self,
        pod: Pod,
        kind: Kind,
        fitting: Fitting,
        rules: InterPodRules | None,
        spread: SoftSpread | None,
        volumes: VolumeRules | None,
    ) -> list[tuple[int, int]]:
        """What each node is worth: compared as pairs, the larger the better."""
        facts = [member.facts for member, _ in fitting]
        names = [node.name for node in facts]
        affinity = node_affinity_scores(pod.scheduling, facts)
        taints = taint_scores(pod.scheduling, facts)
        neighbours = neighbour_scores(rules, names)
        evenness = spread.scores(names) if spread is not None else [0] * len(names)
        wishes = list(zip(affinity, taints, neighbours, evenness, strict=True))
        space = [0] * len(facts)
        if volumes is not None and self._cluster.minor >= _SPACE_SINCE:
            space = [volumes.space_score(node) for node in facts]
        wished = (
            spread is not None
            or any(space)
            or bool(pod.scheduling.node.preferred)
            or (rules is not None and bool(rules.wishes))
            or any(points != BEST for points in taints)
        )
        if not wished or kind.workload != "low" or wanted_share(pod):
            return [
                (answer.score + _PREFERENCE * sum(points), 0)
                for (_, answer), points in zip(fitting, wishes, strict=True)
            ]
        images = self.images(pod)
        resources = self._resource_points(pod, [member for member, _ in fitting])
        return [
            (
                _NODE_AFFINITY * near
                + _TAINTS * untainted
                + _POD_AFFINITY * beside
                + _SPREAD * even
                + images.get(member.name, 0)
                + room
                + left,
                answer.score,
            )
            for (member, answer), (near, untainted, beside, even), room, left in zip(
                fitting, wishes, space, resources, strict=True
            )
        ]

    def images(self, pod: Pod) -> Mapping[str, int]:
        """What the pod's images on nodes are worth, by node; empty where that makes no difference."""
        images = pod.scheduling.images
        return self._cluster.images.points(images, len(self._cluster)) if images else {}

    def _resource_points(self, pod: Pod, members: Sequence[Member]) -> list[int]:
        """LeastAllocated and BalancedAllocation, each of weight 1; remembered until something happens on the member."""
        wants = _counted(pod)
        known = self._points.get(wants)
        if known is None:
            if len(self._points) >= _MOST_KINDS:
                self._points.clear()
            known = self._points[wants] = {}
        points = []
        for member in members:
            one = known.get(member.name)
            if one is None or one[0] is not member.load or one[1] is not member.facts:
                one = known[member.name] = member.load, member.facts, self._points_there(wants, member)
            points.append(one[2])
        return points

    def _points_there(self, wants: _Asked, member: Member) -> int:
        counted, asked = self._asked_of(member)
        most = [member.allocatable.get(name, 0) for name in _SCORED]
        free = least_allocated_score(
            [have + want for have, want in zip(counted, wants[0], strict=True)], most
        )
        # KUBE-SCHEDULER: pods that ask for nothing are not balanced, or all of them would go to one node.
        if not any(wants[1]):
            return free
        after = balanced_score([have + want for have, want in zip(asked, wants[1], strict=True)], most)
        if self._cluster.minor < _GAIN_SINCE:
            return free + after
        return free + balance_gained(balanced_score(asked, most), after)

    def _asked_of(self, member: Member) -> _Asked:
        known = self._asked.get(member.name)
        if known is not None and known[0] is member.load:
            return known[1]
        parts = [_counted(pod) for pod in member.pods.values()]
        asked = _sum(part[0] for part in parts), _sum(part[1] for part in parts)
        self._asked[member.name] = member.load, asked
        return asked


def best_supplied(images: Mapping[str, int], first: str, equals: Iterable[str]) -> str:
    """Of nodes that are worth the same the one that has most of a pod's images; `first` unless another has more."""
    return min(equals, key=lambda name: (-images.get(name, 0), name != first, name), default=first)


def _sum(pairs: Iterable[tuple[int, int]]) -> tuple[int, int]:
    cpus = memory = 0
    for one, other in pairs:
        cpus += one
        memory += other
    return cpus, memory


def _counted(pod: Pod) -> _Asked:
    """What the pod counts for in scores, and what it asks for."""
    asked = _pair(pod_requests(pod))
    cpus, memory = _unsaid(pod.containers, pod.init_containers, pod.pod_requests)
    return (asked[0] + cpus, asked[1] + memory), asked


@lru_cache(maxsize=8192)
def _unsaid(
    containers: tuple[Container, ...], init_containers: tuple[Container, ...], own: Resources
) -> tuple[int, int]:
    """What such a pod counts for on top, for containers that say nothing."""
    pod = Pod("", containers=containers, init_containers=init_containers, pod_requests=own)
    filled = replace(
        pod,
        containers=tuple(map(_filled, containers)),
        init_containers=tuple(map(_filled, init_containers)),
    )
    more, asked = _pair(pod_requests(filled)), _pair(pod_requests(pod))
    return more[0] - asked[0], more[1] - asked[1]


def _filled(container: Container) -> Container:
    said = dict(container.requests)
    return replace(container, requests=tuple(sorted({**_UNSAID, **said}.items())))


def _pair(amounts: Amounts) -> tuple[int, int]:
    asked = dict(amounts)
    return asked.get(_SCORED[0], 0), asked.get(_SCORED[1], 0)
