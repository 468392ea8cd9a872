"""Rules about nodes and other pods from a pod's node: affinity, anti-affinity and spread, as normalised values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import get_args

from numaware.workload.fields import Field
from numaware.workload.scheduling import (
    NodeTerm,
    Operator,
    PodRules,
    PodTerm,
    PreferredNodes,
    PreferredPods,
    Requirement,
    Selector,
    SpreadRule,
)

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NODE_OPERATORS: tuple[Operator, ...] = get_args(Operator)
_POD_OPERATORS = _NODE_OPERATORS[:4]
_INCLUSION = ("Honor", "Ignore")
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_SAME: tuple[tuple[str, Operator], ...] = (("matchLabelKeys", "In"),)
_OTHER: tuple[tuple[str, Operator], ...] = (("mismatchLabelKeys", "NotIn"),)


class AffinityReader:
    """Reads rules of a pod in a namespace; its labels are needed where a rule says `the same as mine`."""

    def __init__(self, namespace: str, labels: Mapping[str, str]) -> None:
        self._namespace = namespace
        self._labels = labels

    def pods(self, affinity: Field) -> PodRules:
        """Required and preferred pod affinity and anti-affinity."""
        if affinity.value is None:
            return PodRules()
        near, apart = affinity.get("podAffinity"), affinity.get("podAntiAffinity")
        return PodRules(
            near=tuple(self._pod_terms(near)),
            apart=tuple(self._pod_terms(apart)),
            rather_near=tuple(self._preferred_pods(near)),
            rather_apart=tuple(self._preferred_pods(apart)),
        )

    def spread(self, constraints: Field) -> tuple[SpreadRule, ...]:
        """Topology spread constraints, in the order they stand."""
        rules: list[SpreadRule] = []
        for item in constraints.entries():
            key = item.get("topologyKey").required()
            skew = item.expect("maxSkew").number(1)
            hard = item.expect("whenUnsatisfiable").choice(_ACTIONS, _ACTIONS[0]) == _ACTIONS[0]
            domains = item.get("minDomains").number(1)
            if domains is not None and not hard:
                item.error(
                    f"Invalid value: {domains}: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
                    "minDomains",
                )
            if any((rule.topology_key, rule.hard) == (key, hard) for rule in rules):
                item.error(
                    "Duplicate value: there is such a rule before it", "{topologyKey, whenUnsatisfiable}"
                )
            rules.append(
                SpreadRule(
                    topology_key=key,
                    max_skew=skew or 1,
                    hard=hard,
                    selector=self._narrowed(item, _SAME),
                    min_domains=domains or 1,
                    heed_affinity=item.get("nodeAffinityPolicy").choice(_INCLUSION, "Honor") == "Honor",
                    heed_taints=item.get("nodeTaintsPolicy").choice(_INCLUSION, "Ignore") == "Honor",
                )
            )
        return tuple(rules)

    def _pod_terms(self, rules: Field) -> Iterator[PodTerm]:
        rules.expect_mapping()
        return (self._pod_term(item) for item in rules.get(_REQUIRED).entries())

    def _preferred_pods(self, rules: Field) -> Iterator[PreferredPods]:
        for item in rules.get(_PREFERRED).entries():
            term = self._pod_term(item.get("podAffinityTerm"))
            yield PreferredPods(_weight(item), term)

    def _pod_term(self, term: Field) -> PodTerm:
        namespaces = term.get("namespaces").texts()
        selected = _selector(term.get("namespaceSelector"))
        if not namespaces and selected is None:
            namespaces = (self._namespace,)
        return PodTerm(
            topology_key=term.get("topologyKey").required(),
            selector=self._narrowed(term, (*_SAME, *_OTHER)),
            namespaces=tuple(sorted(set(namespaces))),
            namespace_selector=selected,
        )

    def _narrowed(self, rule: Field, by: tuple[tuple[str, Operator], ...]) -> Selector | None:
        """The label selector, narrowed to pods that share (or do not share) some labels with this one."""
        selector = _selector(rule.get("labelSelector"))
        extra: list[Requirement] = []
        for field, operator in by:
            keys = rule.get(field).texts()
            if keys and selector is None:
                rule.get(field).error("Forbidden: must not be specified when labelSelector is not set")
            extra.extend(
                Requirement(key, operator, (self._labels[key],)) for key in keys if key in self._labels
            )
        return Selector(_normal((*selector.requirements, *extra))) if selector and extra else selector


def node_terms(affinity: Field) -> tuple[tuple[NodeTerm, ...] | None, tuple[PreferredNodes, ...]]:
    """Required and preferred node affinity."""
    if affinity.value is None:
        return None, ()
    affinity.expect_mapping()
    required = None
    if affinity.get(_REQUIRED).value is not None:
        terms = affinity.get(_REQUIRED).get("nodeSelectorTerms")
        if not terms.node.items:
            terms.error("Required value: must have at least one node selector term")
        read = [_node_term(item) for item in terms.entries()]
        required = tuple(term for term in read if term != _EMPTY)
    preferred = [
        PreferredNodes(_weight(item), _node_term(item.get("preference")))
        for item in affinity.get(_PREFERRED).entries()
    ]
    return required, tuple(each for each in preferred if each.term != _EMPTY)


def _node_term(term: Field) -> NodeTerm:
    term.expect_mapping()
    labels = _requirements(term.get("matchExpressions"), _NODE_OPERATORS)
    names = _requirements(term.get("matchFields"), _NODE_OPERATORS[:2])
    for requirement in names:
        if requirement.key != "metadata.name":
            term.error("Invalid value: the only field to select by is metadata.name", "matchFields")
        if len(requirement.values) > 1:
            term.error("Required value: must be only one value for a field", "matchFields")
    return NodeTerm(labels, names)


def _selector(selector: Field) -> Selector | None:
    if selector.value is None:
        return None
    selector.expect_mapping()
    same = selector.get("matchLabels").labels()
    others = _requirements(selector.get("matchExpressions"), _POD_OPERATORS)
    return Selector(_normal((*(Requirement(key, "In", (value,)) for key, value in same), *others)))


def _requirements(expressions: Field, operators: tuple[Operator, ...]) -> tuple[Requirement, ...]:
    read = []
    for item in expressions.entries():
        key = item.get("key").required()
        if key:
            item.check_label_key(key, "key")
        written = item.expect("operator")
        operator = written.choice(operators, "In")
        values = item.get("values").texts()
        wrong = _wrong_number(operator, len(values))
        if wrong and written.value == operator:
            item.error(wrong, "values")
        read.append(Requirement(key, operator, tuple(sorted(set(values)))))
    return _normal(read)


def _weight(item: Field) -> int:
    return item.expect("weight").number(1, 100) or 1


_EMPTY = NodeTerm()


def _wrong_number(operator: Operator, number: int) -> str:
    if operator in ("In", "NotIn") and not number:
        return "Required value: must be specified when `operator` is 'In' or 'NotIn'"
    if operator in ("Exists", "DoesNotExist") and number:
        return "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
    if operator in ("Gt", "Lt") and number != 1:
        return "Required value: must be specified single value when `operator` is 'Lt' or 'Gt'"
    return ""


def _normal(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(set(requirements)))
