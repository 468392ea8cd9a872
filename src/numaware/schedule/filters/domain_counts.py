"""How many pods of a kind there are in every domain: the counters behind affinity and spread.

A domain is one value of a node label (a zone, a host name). Placed pods are grouped into kin, pods with the same
namespace and labels, because no rule tells such pods apart; a tally decides once per kin whether it counts it, and
from then on costs one addition per pod that comes or goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Protocol

from numaware.schedule.filters.taints_and_affinity import selects, untolerated_taint
from numaware.schedule.node_facts import NodeFacts
from numaware.workload.scheduling import Labels, NodeRules, PodTerm, Selector, SpreadRule

# value of a node label -> how many, or how much; no zeros
Sums = dict[str, int]

# A number that nobody has had before, for counters that are new or have changed: equal stamps, equal counts.
_STAMPS = count(1)


class StampedSums(Sums):
    """Sums that tell by their `stamp` whether they are what they were."""

    __slots__ = ("stamp",)

    def __init__(self) -> None:
        self.stamp = next(_STAMPS)

    def add(self, domain: str | None, number: int) -> None:
        """Add to one domain; no domain, no sum."""
        if domain is not None:
            add(self, domain, number)
            self.stamp = next(_STAMPS)


class Kin:
    """Pods that no rule tells apart, and on which nodes they are; `namespace_labels` is None where nobody knows them.

    `leaving` are pods that are being deleted: to spread others they do not count any more.
    """

    __slots__ = (
        "labels",
        "leaving",
        "namespace",
        "namespace_labels",
        "on",
        "pulled",
        "repelled",
        "tallies",
        "version",
    )

    def __init__(
        self,
        namespace: str,
        labels: Labels,
        namespace_labels: Mapping[str, str] | None,
        *,
        leaving: bool = False,
    ) -> None:
        self.namespace = namespace
        self.labels = dict(labels)
        self.namespace_labels = namespace_labels
        self.leaving = leaving
        self.on: dict[str, int] = {}
        self.tallies: list[DomainCounts] = []
        # The standing terms of other pods that mean this kin, as of `version` of the index that keeps them.
        self.repelled: list[tuple[str, StampedSums]] = []
        self.pulled: list[tuple[str, Sums]] = []
        self.version = -1

    def meant_by(self, term: PodTerm) -> bool:
        """Whether a term speaks of these pods."""
        if term.selector is None or not term.selector.matches(self.labels):
            return False
        if self.namespace in term.namespaces:
            return True
        chosen = term.namespace_selector
        return chosen is not None and (self.namespace_labels is None or chosen.matches(self.namespace_labels))


class DomainCounts(Protocol):
    """Counts kin by domain."""

    def wants(self, kin: Kin) -> bool: ...

    def count(self, node: str, number: int) -> None: ...


class TermCounts:
    """Pods that all of the terms speak of, by each term's topology key."""

    def __init__(self, terms: tuple[PodTerm, ...], labels: Mapping[str, Mapping[str, str]]) -> None:
        self.terms = terms
        self.sums = {term.topology_key: StampedSums() for term in terms}
        self._labels = labels

    @property
    def stamp(self) -> int:
        """Another as soon as one of the sums is."""
        return max(sums.stamp for sums in self.sums.values())

    def wants(self, kin: Kin) -> bool:
        return all(kin.meant_by(term) for term in self.terms)

    def count(self, node: str, number: int) -> None:
        labels = self._labels[node]
        for key, sums in self.sums.items():
            sums.add(labels.get(key), number)


class SpreadCounts:
    """Pods that one spread rule speaks of, in the domains that count for it; those are known even while empty."""

    def __init__(
        self,
        namespace: str,
        rule: SpreadRule,
        keys: Iterable[str],
        rules: NodeRules,
        nodes: Iterable[NodeFacts],
    ) -> None:
        self.namespace = namespace
        self.rule = rule
        self._domain_of: dict[str, str] = {}
        for facts in nodes:
            labels = dict(facts.labels)
            domain = labels.get(rule.topology_key)
            if domain is not None and all(key in labels for key in keys) and _counts(rule, rules, facts):
                self._domain_of[facts.name] = domain
        self.sums = dict.fromkeys(self._domain_of.values(), 0)
        self.stamp = next(_STAMPS)

    def wants(self, kin: Kin) -> bool:
        return _is_spread(kin, self.namespace, self.rule.selector)

    def count(self, node: str, number: int) -> None:
        domain = self._domain_of.get(node)
        if domain is not None:
            self.sums[domain] += number
            self.stamp = next(_STAMPS)

    def most(self, kin: Kin) -> int:
        """How many such pods a domain may have at most for one of this kin to be let in beside them."""
        least = min(self.sums.values()) if len(self.sums) >= self.rule.min_domains else 0
        selector = self.rule.selector
        itself = selector is not None and selector.matches(kin.labels)
        return self.rule.max_skew + least - itself


class HostCounts:
    """Pods that a spread rule speaks of on each node, whatever keeps others off it: so kube-scheduler scores by hosts."""

    def __init__(self, namespace: str, selector: Selector | None) -> None:
        self.namespace = namespace
        self.selector = selector
        self.sums: Sums = {}

    def wants(self, kin: Kin) -> bool:
        return _is_spread(kin, self.namespace, self.selector)

    def count(self, node: str, number: int) -> None:
        add(self.sums, node, number)


def _is_spread(kin: Kin, namespace: str, selector: Selector | None) -> bool:
    # KUBE-SCHEDULER: a selector that takes everything counts nobody here, nor does a pod that is being deleted
    # (countPodsMatchSelector).
    return (
        kin.namespace == namespace
        and not kin.leaving
        and selector is not None
        and bool(selector.requirements)
        and selector.matches(kin.labels)
    )


def _counts(rule: SpreadRule, rules: NodeRules, facts: NodeFacts) -> bool:
    """Whether a node counts for the rule, as the rule heeds what keeps the pod off the node."""
    return (not rule.heed_affinity or selects(rules, facts)) and (
        not rule.heed_taints or untolerated_taint(rules, facts) is None
    )


def add(sums: Sums, domain: str | None, number: int) -> None:
    """Add to one domain; no domain, no sum."""
    if domain is None:
        return
    total = sums.get(domain, 0) + number
    if total:
        sums[domain] = total
    else:
        sums.pop(domain, None)
