"""How evenly a pod would like to be spread: the score of kube-scheduler's plugin PodTopologySpread (v1.35).

Rules with `whenUnsatisfiable: ScheduleAnyway`, or those that kube-scheduler gives to replicas that say nothing. It divides
and takes logarithms as floating-point numbers, and so does this: the scores are compared with its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, log

import msgspec

from numaware.schedule.filters.domain_counts import Sums

HOST = "kubernetes.io/hostname"
_TOP = 100


class SoftRule(msgspec.Struct, frozen=True):
    """Pods that count by domain; those of a rule over hosts by the name of the node."""

    key: str
    max_skew: int
    sums: Sums


class SoftSpread(msgspec.Struct, frozen=True):
    """The rules of one pod with their live counters; `every_key`: nodes without the label of any rule are worth nothing."""

    labels: Mapping[str, Mapping[str, str]]
    rules: tuple[SoftRule, ...]
    every_key: bool

    def scores(self, nodes: Sequence[str]) -> list[int]:
        """What each of the nodes that are possible is worth, 0 to 100: the fewer such pods in its domains, the better."""
        labels = [self.labels[node] for node in nodes]
        counted = [True] * len(nodes)
        if self.every_key:
            keys = [rule.key for rule in self.rules]
            counted = [all(key in own for key in keys) for own in labels]
        crowds = [0.0] * len(nodes)
        for rule in self.rules:
            crowds = _with(rule, nodes, labels, counted, crowds)
        rounded = [floor(crowd + 0.5) for crowd in crowds]
        rest = [crowd for crowd, counts in zip(rounded, counted, strict=True) if counts]
        if not rest:
            return [0] * len(nodes)
        least, most = min(rest), max(rest)
        return [
            0 if not counts else _TOP if not most else _TOP * (most + least - crowd) // most
            for crowd, counts in zip(rounded, counted, strict=True)
        ]


def _with(
    rule: SoftRule,
    nodes: Sequence[str],
    labels: Sequence[Mapping[str, str]],
    counted: Sequence[bool],
    crowds: Sequence[float],
) -> list[float]:
    """What one rule adds; the more domains there are, the more a pod in one of them weighs."""
    key = rule.key
    if key == HOST:
        domains: Sequence[str] = nodes
        size = sum(counted)
    else:
        # KUBE-SCHEDULER: nodes without the label are one more domain, which nobody is in (initPreScoreState).
        domains = [own.get(key, "") for own in labels]
        size = len({domain for domain, counts in zip(domains, counted, strict=True) if counts})
    weight, bias, pods_in = log(size + 2), float(rule.max_skew - 1), rule.sums.get
    return [
        crowd + pods_in(domain, 0) * weight + bias if key in own else crowd
        for crowd, domain, own in zip(crowds, domains, labels, strict=True)
    ]
