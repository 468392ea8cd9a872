"""Rules about nodes and other pods from a pod's node: affinity, anti-affinity and spread, as normalised values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import get_args

from numaware.workload.fields import Fields
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
from numaware.workload.yamlfile import Node

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

    def __init__(self, fields: Fields, namespace: str, labels: Mapping[str, str]) -> None:
        self._fields = fields
        self._namespace = namespace
        self._labels = labels

    def nodes(self, node: Node, path: str) -> tuple[tuple[NodeTerm, ...] | None, tuple[PreferredNodes, ...]]:
        """Required and preferred node affinity."""
        self._fields.expect_mapping(node, path)
        required = None
        if node.get(_REQUIRED).value is not None:
            terms = node.get(_REQUIRED, "nodeSelectorTerms")
            terms_path = f"{path}.{_REQUIRED}.nodeSelectorTerms"
            if not terms.items:
                self._fields.error(
                    terms, terms_path, "Required value: must have at least one node selector term"
                )
            read = [self._node_term(item, where) for item, where in self._fields.entries(terms, terms_path)]
            required = tuple(term for term in read if term != _EMPTY)
        preferred = [
            PreferredNodes(
                self._weight(item, where), self._node_term(item.get("preference"), f"{where}.preference")
            )
            for item, where in self._fields.entries(node.get(_PREFERRED), f"{path}.{_PREFERRED}")
        ]
        return required, tuple(each for each in preferred if each.term != _EMPTY)

    def pods(self, affinity: Node, path: str) -> PodRules:
        """Required and preferred pod affinity and anti-affinity."""
        near, near_path = affinity.get("podAffinity"), f"{path}.podAffinity"
        apart, apart_path = affinity.get("podAntiAffinity"), f"{path}.podAntiAffinity"
        return PodRules(
            near=tuple(self._pod_terms(near, near_path)),
            apart=tuple(self._pod_terms(apart, apart_path)),
            rather_near=tuple(self._preferred_pods(near, near_path)),
            rather_apart=tuple(self._preferred_pods(apart, apart_path)),
        )

    def spread(self, node: Node, path: str) -> tuple[SpreadRule, ...]:
        """Topology spread constraints, in the order they stand."""
        fields = self._fields
        rules: list[SpreadRule] = []
        for item, where in fields.entries(node, path):
            key = fields.required(item.get("topologyKey"), f"{where}.topologyKey")
            skew = fields.number(fields.expect(item, "maxSkew", where), f"{where}.maxSkew", 1)
            action = fields.expect(item, "whenUnsatisfiable", where)
            hard = fields.choice(action, f"{where}.whenUnsatisfiable", _ACTIONS, _ACTIONS[0]) == _ACTIONS[0]
            domains = fields.number(item.get("minDomains"), f"{where}.minDomains", 1)
            if domains is not None and not hard:
                fields.error(
                    item,
                    f"{where}.minDomains",
                    f"Invalid value: {domains}: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
                )
            if any((rule.topology_key, rule.hard) == (key, hard) for rule in rules):
                fields.error(
                    item,
                    f"{where}.{{topologyKey, whenUnsatisfiable}}",
                    "Duplicate value: there is such a rule before it",
                )
            rules.append(
                SpreadRule(
                    topology_key=key,
                    max_skew=skew or 1,
                    hard=hard,
                    selector=self._narrowed(item, where, _SAME),
                    min_domains=domains or 1,
                    heed_affinity=self._heeds(item, where, "nodeAffinityPolicy", "Honor"),
                    heed_taints=self._heeds(item, where, "nodeTaintsPolicy", "Ignore"),
                )
            )
        return tuple(rules)

    def _heeds(self, item: Node, where: str, field: str, default: str) -> bool:
        return self._fields.choice(item.get(field), f"{where}.{field}", _INCLUSION, default) == "Honor"

    def _node_term(self, node: Node, path: str) -> NodeTerm:
        self._fields.expect_mapping(node, path)
        labels = self._requirements(node.get("matchExpressions"), f"{path}.matchExpressions", _NODE_OPERATORS)
        names = self._requirements(node.get("matchFields"), f"{path}.matchFields", _NODE_OPERATORS[:2])
        for requirement in names:
            if requirement.key != "metadata.name":
                self._fields.error(
                    node, f"{path}.matchFields", "Invalid value: the only field to select by is metadata.name"
                )
            if len(requirement.values) > 1:
                self._fields.error(
                    node, f"{path}.matchFields", "Required value: must be only one value for a field"
                )
        return NodeTerm(labels, names)

    def _pod_terms(self, node: Node, path: str) -> Iterator[PodTerm]:
        self._fields.expect_mapping(node, path)
        for item, where in self._fields.entries(node.get(_REQUIRED), f"{path}.{_REQUIRED}"):
            yield self._pod_term(item, where)

    def _preferred_pods(self, node: Node, path: str) -> Iterator[PreferredPods]:
        for item, where in self._fields.entries(node.get(_PREFERRED), f"{path}.{_PREFERRED}"):
            term = self._pod_term(item.get("podAffinityTerm"), f"{where}.podAffinityTerm")
            yield PreferredPods(self._weight(item, where), term)

    def _pod_term(self, node: Node, path: str) -> PodTerm:
        namespaces = self._fields.texts(node.get("namespaces"), f"{path}.namespaces")
        selected = self._selector(node.get("namespaceSelector"), f"{path}.namespaceSelector")
        if not namespaces and selected is None:
            namespaces = (self._namespace,)
        return PodTerm(
            topology_key=self._fields.required(node.get("topologyKey"), f"{path}.topologyKey"),
            selector=self._narrowed(node, path, (*_SAME, *_OTHER)),
            namespaces=tuple(sorted(set(namespaces))),
            namespace_selector=selected,
        )

    def _narrowed(self, node: Node, path: str, by: tuple[tuple[str, Operator], ...]) -> Selector | None:
        """The label selector, narrowed to pods that share (or do not share) some labels with this one."""
        selector = self._selector(node.get("labelSelector"), f"{path}.labelSelector")
        extra: list[Requirement] = []
        for field, operator in by:
            keys = self._fields.texts(node.get(field), f"{path}.{field}")
            if keys and selector is None:
                self._fields.error(
                    node.get(field),
                    f"{path}.{field}",
                    "Forbidden: must not be specified when labelSelector is not set",
                )
            extra.extend(
                Requirement(key, operator, (self._labels[key],)) for key in keys if key in self._labels
            )
        return Selector(_normal((*selector.requirements, *extra))) if selector and extra else selector

    def _selector(self, node: Node, path: str) -> Selector | None:
        if node.value is None:
            return None
        self._fields.expect_mapping(node, path)
        same = self._fields.labels(node.get("matchLabels"), f"{path}.matchLabels")
        others = self._requirements(node.get("matchExpressions"), f"{path}.matchExpressions", _POD_OPERATORS)
        return Selector(_normal((*(Requirement(key, "In", (value,)) for key, value in same), *others)))

    def _requirements(
        self, node: Node, path: str, operators: tuple[Operator, ...]
    ) -> tuple[Requirement, ...]:
        read = []
        for item, where in self._fields.entries(node, path):
            key = self._fields.required(item.get("key"), f"{where}.key")
            if key:
                self._fields.label_key(item, f"{where}.key", key)
            written = self._fields.expect(item, "operator", where)
            operator = self._fields.choice(written, f"{where}.operator", operators, "In")
            values = self._fields.texts(item.get("values"), f"{where}.values")
            wrong = _wrong_number(operator, len(values))
            if wrong and written.value == operator:
                self._fields.error(item, f"{where}.values", wrong)
            read.append(Requirement(key, operator, tuple(sorted(set(values)))))
        return _normal(read)

    def _weight(self, node: Node, path: str) -> int:
        return self._fields.number(self._fields.expect(node, "weight", path), f"{path}.weight", 1, 100) or 1


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
