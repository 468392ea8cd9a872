"""Pods and nodes in few words, and a plain reading of kube-scheduler's rules about pods beside pods.

The plain reading goes through every pod for every answer, as the rules are told; what is counted step by step is
compared with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from numaware.diagnose.reason import Reason
from numaware.schedule.filters.taints_and_affinity import selects, untolerated_taint
from numaware.schedule.node_facts import NodeFacts, Taint
from numaware.workload.pod import Pod
from numaware.workload.scheduling import (
    Labels,
    NodeRules,
    PodRules,
    PodTerm,
    Requirement,
    Scheduling,
    Selector,
    SpreadRule,
)

Place = tuple[Pod, NodeFacts]


def labels(text: str) -> Labels:
    """`a=1 b=2` as labels."""
    return tuple(sorted((part.split("=")[0], part.split("=")[1]) for part in text.split()))


def selector(text: str) -> Selector:
    """Labels that have to be as written."""
    return Selector(tuple(Requirement(key, "In", (value,)) for key, value in labels(text)))


def term(key: str, chosen: str, *namespaces: str) -> PodTerm:
    return PodTerm(key, selector(chosen), namespaces or ("default",))


def node(name: str, text: str = "", *taints: Taint) -> NodeFacts:
    return NodeFacts(name, labels=tuple(sorted((*labels(text), ("host", name)))), taints=taints)


def pod(
    name: str,
    text: str = "",
    *,
    namespace: str = "default",
    rules: PodRules = PodRules(),  # noqa: B008 - an immutable value
    spread: tuple[SpreadRule, ...] = (),
    nodes: NodeRules = NodeRules(),  # noqa: B008 - an immutable value
) -> Pod:
    return Pod(
        name,
        namespace,
        uid=name,
        scheduling=Scheduling(labels=labels(text), pods=rules, spread=spread, node=nodes),
    )


def plain_reason(
    asking: Pod,
    where: NodeFacts,
    nodes: Sequence[NodeFacts],
    placed: Iterable[Place],
    namespaces: Mapping[str, Labels],
) -> Reason | None:
    """Why the pod may not go there, worked out from all pods."""
    there = list(placed)
    return _spread_reason(asking, where, nodes, there) or _affinity_reason(asking, where, there, namespaces)


def plain_weight(
    asking: Pod, where: NodeFacts, placed: Iterable[Place], namespaces: Mapping[str, Labels]
) -> int:
    """How much the pod and those placed would like it there, worked out from all pods."""
    total = 0
    for other, at in placed:
        mine, theirs = asking.scheduling.pods, other.scheduling.pods
        wishes = [
            *((wish.weight, wish.term, other) for wish in mine.rather_near),
            *((-wish.weight, wish.term, other) for wish in mine.rather_apart),
            *((1, required, asking) for required in theirs.near),
            *((wish.weight, wish.term, asking) for wish in theirs.rather_near),
            *((-wish.weight, wish.term, asking) for wish in theirs.rather_apart),
        ]
        total += sum(
            weight
            for weight, wanted, whom in wishes
            if _means(wanted, whom, namespaces) and _together(wanted.topology_key, at, where)
        )
    return total


def _spread_reason(
    asking: Pod, where: NodeFacts, nodes: Sequence[NodeFacts], placed: list[Place]
) -> Reason | None:
    hard = [rule for rule in asking.scheduling.spread if rule.hard]
    here = dict(where.labels)
    for rule in hard:
        if rule.topology_key not in here:
            return Reason("topology-spread-label")
        counted = [
            facts
            for facts in nodes
            if all(each.topology_key in dict(facts.labels) for each in hard)
            and (not rule.heed_affinity or selects(asking.scheduling.node, facts))
            and (not rule.heed_taints or untolerated_taint(asking.scheduling.node, facts) is None)
        ]
        names = {facts.name for facts in counted}
        numbers = {dict(facts.labels)[rule.topology_key]: 0 for facts in counted}
        for other, at in placed:
            if (
                at.name in names
                and other.namespace == asking.namespace
                and rule.selector is not None
                and rule.selector.requirements
                and rule.selector.matches(dict(other.scheduling.labels))
            ):
                numbers[dict(at.labels)[rule.topology_key]] += 1
        least = min(numbers.values()) if len(numbers) >= rule.min_domains else 0
        itself = rule.selector is not None and rule.selector.matches(dict(asking.scheduling.labels))
        if numbers.get(here[rule.topology_key], 0) + itself - least > rule.max_skew:
            return Reason("topology-spread")
    return None


def _affinity_reason(
    asking: Pod, where: NodeFacts, placed: list[Place], namespaces: Mapping[str, Labels]
) -> Reason | None:
    rules = asking.scheduling.pods
    if rules.near:
        if any(wanted.topology_key not in dict(where.labels) for wanted in rules.near):
            return Reason("pod-affinity")
        liked = [
            at for other, at in placed if all(_means(wanted, other, namespaces) for wanted in rules.near)
        ]
        anywhere = any(wanted.topology_key in dict(at.labels) for wanted in rules.near for at in liked)
        itself = all(_means(wanted, asking, namespaces) for wanted in rules.near)
        near_each = all(
            any(_together(wanted.topology_key, at, where) for at in liked) for wanted in rules.near
        )
        if not near_each and (anywhere or not itself):
            return Reason("pod-affinity")
    for wanted in rules.apart:
        if any(
            _means(wanted, other, namespaces) and _together(wanted.topology_key, at, where)
            for other, at in placed
        ):
            return Reason("pod-anti-affinity")
    for other, at in placed:
        for wanted in other.scheduling.pods.apart:
            if _means(wanted, asking, namespaces) and _together(wanted.topology_key, at, where):
                return Reason("existing-anti-affinity")
    return None


def _means(wanted: PodTerm, whom: Pod, namespaces: Mapping[str, Labels]) -> bool:
    own = {"kubernetes.io/metadata.name": whom.namespace, **dict(namespaces.get(whom.namespace, ()))}
    chosen = whom.namespace in wanted.namespaces or (
        wanted.namespace_selector is not None and wanted.namespace_selector.matches(own)
    )
    return chosen and wanted.selector is not None and wanted.selector.matches(dict(whom.scheduling.labels))


def _together(key: str, one: NodeFacts, other: NodeFacts) -> bool:
    first, second = dict(one.labels).get(key), dict(other.labels).get(key)
    return first is not None and first == second
