"""What a pod would rather have, as scores from 0 to 100 over the nodes that are possible.

Mirrors the scores of kube-scheduler's plugins NodeAffinity, TaintToleration, InterPodAffinity, NodeResourcesFit
(LeastAllocated) and NodeResourcesBalancedAllocation (v1.35 to v1.37) and how it scales them; where kube-scheduler divides as
floating-point numbers and nobody could tell, this divides whole numbers and rounds down. PodTopologySpread is scored in
`filters/soft_spread.py`, ImageLocality in `node_images.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from numaware.schedule.filters.inter_pod import InterPodRules
from numaware.schedule.node_facts import NodeFacts
from numaware.workload.scheduling import Scheduling

TOP = 100


def node_affinity_scores(scheduling: Scheduling, nodes: Sequence[NodeFacts]) -> list[int]:
    """By the sum of the weights of the preferred terms that match; the best node gets 100."""
    preferred = scheduling.node.preferred
    if not preferred:
        return [0] * len(nodes)
    weights = []
    for facts in nodes:
        labels = dict(facts.labels)
        weights.append(sum(each.weight for each in preferred if each.term.matches(facts.name, labels)))
    most = max(weights, default=0)
    return [TOP * weight // most if most else 0 for weight in weights]


def taint_scores(scheduling: Scheduling, nodes: Sequence[NodeFacts]) -> list[int]:
    """The fewer taints that discourage the pod (PreferNoSchedule), the better; none of them gives 100."""
    if not any(facts.taints for facts in nodes):
        return [TOP] * len(nodes)
    unwelcome = [
        sum(
            taint.effect == "PreferNoSchedule"
            and not any(
                toleration.tolerates(taint.key, taint.value, taint.effect)
                for toleration in scheduling.node.tolerations
            )
            for taint in facts.taints
        )
        for facts in nodes
    ]
    most = max(unwelcome, default=0)
    return [TOP - TOP * number // most if most else TOP for number in unwelcome]


def neighbour_scores(question: InterPodRules | None, nodes: Sequence[str]) -> list[int]:
    """By the wishes of the pod and of those already placed: 0 for the least liked node, 100 for the best."""
    if question is None or not question.wishes:
        return [0] * len(nodes)
    weights = [question.weight(node) for node in nodes]
    least, most = min(weights, default=0), max(weights, default=0)
    return [TOP * (weight - least) // (most - least) if most > least else 0 for weight in weights]


def least_allocated_score(requested: Sequence[int], allocatable: Sequence[int]) -> int:
    """The mean of what would be free of each resource; one that the node does not have does not count."""
    shares = [
        max(0, TOP * (most - amount) // most)
        for amount, most in zip(requested, allocatable, strict=True)
        if most
    ]
    return sum(shares) // len(shares) if shares else 0


def balanced_score(requested: Sequence[int], allocatable: Sequence[int]) -> int:
    """The more alike CPUs and memory would be used, the better; both are at most wholly used."""
    shares = [min(1.0, amount / most) for amount, most in zip(requested, allocatable, strict=True) if most]
    return int((1 - (abs(shares[0] - shares[1]) / 2 if len(shares) == 2 else 0.0)) * TOP)


def balance_gained(before: int, after: int) -> int:
    """What v1.36 and later make of the balance without and with the pod: about 75 if it changes little."""
    return TOP // 2 + (TOP // 2 + after - before) // 2
