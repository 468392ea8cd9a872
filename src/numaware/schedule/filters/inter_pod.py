"""One pod's rules about other pods, and theirs about it: may it join them on a node, and how much would it like to.

Mirrors the filters of kube-scheduler's plugins PodTopologySpread and InterPodAffinity (v1.35), in this order, and the
score of the latter before it is scaled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from numaware.diagnose.reason import Reason
from numaware.schedule.filters.domain_counts import Sums
from numaware.schedule.filters.node_resources import ports_reason
from numaware.workload.pod import Pod

UNEVEN = Reason("topology-spread")
NO_DOMAIN = Reason("topology-spread-label")
NOT_NEAR = Reason("pod-affinity")
TOO_NEAR = Reason("pod-anti-affinity")
NOT_WELCOME = Reason("existing-anti-affinity")


class InterPodRules(msgspec.Struct, frozen=True):
    """All counters one pod's rules look at, picked once; asking about a node is then a few look-ups.

    The counters are live: the answer holds until a pod or node comes, goes or changes, and then the pod has to ask again.
    `most` of a domain is how many pods may already be there; `first` says that nobody is there to be near to, and that
    the pod is of the kind it wants to be near to, so that it may be the first. While `stamp` is what it was, no counter
    that could keep the pod off a node has changed.
    """

    labels: Mapping[str, Mapping[str, str]]
    spread: tuple[tuple[str, int, Sums], ...]
    near: tuple[tuple[str, Sums], ...]
    first: bool
    apart: tuple[tuple[str, Sums], ...]
    repelled: tuple[tuple[str, Sums], ...]
    wishes: tuple[tuple[str, int, Sums], ...]
    stamp: tuple[int, ...] = ()

    def reason(self, node: str) -> Reason | None:
        """Why the pod may not go to the node because of what is on others, or there."""
        labels = self.labels[node]
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

    def weight(self, node: str) -> int:
        """How much the pod would like it there, and those who are there would like it: for comparing nodes."""
        labels = self.labels[node]
        return sum(weight * sums.get(labels[key], 0) for key, weight, sums in self.wishes if key in labels)


def beside_reason(pod: Pod, node: str, there: Iterable[Pod], rules: InterPodRules | None) -> Reason | None:
    """Why the pod may not go to the node because of pods: a port that one `there` has, or rules about others."""
    wanted = pod.scheduling.host_ports
    if wanted:
        reason = ports_reason(wanted, [port for other in there for port in other.scheduling.host_ports])
        if reason is not None:
            return reason
    return None if rules is None else rules.reason(node)


def _any(terms: tuple[tuple[str, Sums], ...], labels: Mapping[str, str]) -> bool:
    return any(key in labels and labels[key] in sums for key, sums in terms)
