"""One pod's question to its neighbours: may it join them on a node, and how much would it like to.

Mirrors the filters of kube-scheduler's plugins PodTopologySpread and InterPodAffinity (v1.35), in this order, and the
score of the latter before it is scaled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from numaware.schedule.constraints.places import Places
from numaware.schedule.constraints.tallies import Sums

UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_DOMAIN = "node(s) didn't match pod topology spread constraints (missing required label)"
NOT_NEAR = "node(s) didn't match pod affinity rules"
TOO_NEAR = "node(s) didn't match pod anti-affinity rules"
NOT_WELCOME = "node(s) didn't satisfy existing pods anti-affinity rules"


class Question(msgspec.Struct, frozen=True):
    """All counters one pod's rules look at, picked once; asking about a node is then a few look-ups.

    The counters are live: the answer holds until a pod or node comes, goes or changes, and then the pod has to ask again.
    `most` of a domain is how many pods may already be there; `first` says that nobody is there to be near to, and that
    the pod is of the kind it wants to be near to, so that it may be the first.
    """

    places: Places
    spread: tuple[tuple[str, int, Sums], ...]
    near: tuple[tuple[str, Sums], ...]
    first: bool
    apart: tuple[tuple[str, Sums], ...]
    repelled: tuple[tuple[str, Sums], ...]
    wishes: tuple[tuple[str, int, Sums], ...]

    def reason(self, node: str) -> str | None:
        """Why the pod may not go to the node because of what is on others, or there."""
        labels = self.places.labels[node]
        for key, most, sums in self.spread:
            domain = labels.get(key)
            if domain is None:
                return NO_DOMAIN
            if sums.get(domain, 0) > most:
                return UNEVEN
        for key, sums in self.near:
            domain = labels.get(key)
            if domain is None or not (self.first or domain in sums):
                return NOT_NEAR
        if _any(self.apart, labels):
            return TOO_NEAR
        if _any(self.repelled, labels):
            return NOT_WELCOME
        return None

    def refusals(self) -> dict[str, str]:
        """Every node that is refused, with its reason: the same as asking for each, but by whole domains."""
        found: dict[str, str] = {}

        def refuse(nodes: Iterable[str], reason: str) -> None:
            for node in nodes:
                found.setdefault(node, reason)

        for key, most, sums in self.spread:
            refuse(self.places.outside(key), NO_DOMAIN)
            for domain, nodes in self.places.inside(key).items():
                if sums.get(domain, 0) > most:
                    refuse(nodes, UNEVEN)
        for key, sums in self.near:
            refuse(self.places.outside(key), NOT_NEAR)
            for domain, nodes in self.places.inside(key).items():
                if not self.first and domain not in sums:
                    refuse(nodes, NOT_NEAR)
        for places, reason in ((self.apart, TOO_NEAR), (self.repelled, NOT_WELCOME)):
            for key, sums in places:
                inside = self.places.inside(key)
                for domain in sums:
                    refuse(inside[domain], reason)
        return found

    def weight(self, node: str) -> int:
        """How much the pod would like it there, and those who are there would like it: for comparing nodes."""
        labels = self.places.labels[node]
        return sum(weight * sums.get(labels[key], 0) for key, weight, sums in self.wishes if key in labels)


def _any(places: tuple[tuple[str, Sums], ...], labels: Mapping[str, str]) -> bool:
    return any(key in labels and labels[key] in sums for key, sums in places)
