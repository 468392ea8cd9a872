"""Selectors of labels as objects of the API server carry them, as the normalised values that the rest compares."""

from __future__ import annotations

from numaware.kube.decoding import Wire
from numaware.workload.scheduling import NodeTerm, Operator, Requirement, Selector


class WireRequirement(Wire):
    """One condition on labels, or on fields."""

    key: str
    operator: Operator
    values: tuple[str, ...] | None = None

    @property
    def value(self) -> Requirement:
        return Requirement(self.key, self.operator, tuple(sorted(set(self.values or ()))))


class WireSelector(Wire):
    """A LabelSelector."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[WireRequirement, ...] | None = None

    @property
    def value(self) -> Selector:
        same = same_labels(self.match_labels or {}).requirements
        others = (one.value for one in self.match_expressions or ())
        return Selector(tuple(sorted({*same, *others})))


class WireNodeTerm(Wire):
    """One term of a NodeSelector."""

    match_expressions: tuple[WireRequirement, ...] | None = None
    match_fields: tuple[WireRequirement, ...] | None = None

    @property
    def value(self) -> NodeTerm:
        labels, names = (
            tuple(sorted({one.value for one in part or ()}))
            for part in (self.match_expressions, self.match_fields)
        )
        return NodeTerm(labels, names)


def same_labels(labels: dict[str, str]) -> Selector:
    """Whatever has all of these labels."""
    return Selector(tuple(sorted(Requirement(key, "In", (value,)) for key, value in labels.items())))
