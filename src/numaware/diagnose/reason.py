"""Why a node does not take a pod, as a value: a code and its facts, so that reasons are compared, counted and remembered.

`schedule` makes them, `diagnose/texts` words them in each language (in English as kube-scheduler's users know them), and
`diagnose/evidence/fit_error.py` reads them back from what a scheduler of another process has written on a pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, Union, get_args

import msgspec

from numaware.diagnose.finding import Message

# In the order of their English words, in which equally frequent reasons stand.
Code = Literal[
    "gpu-share",
    "insufficient",
    "claim-foreign",
    "scheduling-gates",
    "too-many-pods",
    "volume-driver",
    # What another scheduler of the lab says in its own words.
    "quoted",
    "volumes-unknown",
    "pod-unreadable",
    "claims",
    "volcano-cpu-policy",
    "not-aligned",
    "numa-alignment",
    "smt-alignment",
    "volume-space",
    "volume-binding",
    "host-ports",
    "volume-affinity",
    "node-affinity",
    "node-features",
    "pod-affinity",
    "pod-anti-affinity",
    "topology-spread",
    "topology-spread-label",
    "node-name",
    "existing-anti-affinity",
    "volume-limit",
    "disk-conflict",
    "volume-zone",
    "devices",
    "exclusive-cpus",
    "numa-memory",
    "untolerated-taint",
    "pods-astray",
    "room-held",
    "room-nominated",
    "dra-resources",
    "namespaces-unknown",
    "held-back",
    "node-unknown",
    "claim-in-use",
    "unschedulable",
    "outcome-unknown",
    "no-nodes",
    "volcano-no-numa-info",
    "volume-missing",
    "claim-lost",
    "claim-deleted",
    "claim-missing",
    "claims-unbound",
    "volcano-policy",
    "kubelet-crash",
    "kubelet-start",
    "pod-group",
    "allocations",
    "workload-class",
    "claim-awaited",
    # Parts of a reason: what a pod waits for, and what of a node is not known.
    "volume-claims",
    "resource-claims",
    "setting",
    "core-siblings",
    "memory-groups",
    "shares",
    "device-nodes",
    "devices-on-several",
    "cuts",
    "changes",
    "unhealthy-devices",
    "volcano-counts",
    "no-topology",
]

# The names of the facts of every code.
FACTS: Mapping[Code, tuple[str, ...]] = {
    **dict.fromkeys(get_args(Code), ()),
    "insufficient": ("resource",),
    "quoted": ("text",),
    "pod-unreadable": ("problem",),
    "claims": ("claims",),
    "numa-alignment": ("policy",),
    "untolerated-taint": ("key", "value"),
    "volume-driver": ("driver",),
    "outcome-unknown": ("unknowns",),
    "volcano-policy": ("task", "node"),
    "kubelet-crash": ("error",),
    "workload-class": ("value",),
    "claim-foreign": ("claim", "pod"),
    "claim-missing": ("name",),
    "claim-lost": ("name", "volume"),
    "claim-deleted": ("name",),
    "claim-awaited": ("name",),
    "volume-missing": ("name",),
    "pod-group": ("group",),
    "allocations": ("claims",),
    "dra-resources": ("names",),
    "volume-claims": ("number", "names"),
    "resource-claims": ("number", "names"),
    "setting": ("name",),
    "device-nodes": ("resource",),
    "devices-on-several": ("resource",),
}
_RANK = {code: rank for rank, code in enumerate(FACTS)}
# The node does not refuse: nobody can tell whether it would.
_UNKNOWN: frozenset[Code] = frozenset(
    {"outcome-unknown", "pods-astray", "node-unknown", "namespaces-unknown", "volumes-unknown"}
)
# The kubelet would refuse, for want of room on its NUMA nodes or because its managers do not agree.
_KUBELET_CODES: frozenset[Code] = frozenset(
    {"numa-alignment", "smt-alignment", "numa-memory", "exclusive-cpus", "devices"}
)

Fact = Union[int, str, "Reason", tuple["Fact", ...]]


class Reason(msgspec.Struct, frozen=True, order=True, cache_hash=True):
    """Why not: `facts` stand in the order of their names in `FACTS`."""

    code: Code
    facts: tuple[Fact, ...] = ()

    @property
    def is_unknown(self) -> bool:
        return self.code in _UNKNOWN

    @property
    def is_kubelets(self) -> bool:
        return self.code in _KUBELET_CODES

    @property
    def named_facts(self) -> dict[str, Fact]:
        return dict(zip(FACTS[self.code], self.facts, strict=True))


# How many nodes have which reason.
Counts = tuple[tuple[Reason, int], ...]


def most_frequent_first(counts: Counter[Reason]) -> Counts:
    return tuple(sorted(counts.items(), key=lambda pair: (-pair[1], _RANK[pair[0].code], pair[0].facts)))


def nodes_available(
    fitting: int,
    nodes: int,
    why: Reason | Iterable[tuple[Reason, int]],
    nearest: Message | None = None,
    room: Message | None = None,
) -> Message:
    """`0/4 nodes are available: …`: a reason that all nodes share, or how many have which, the nearest miss, and who could
    make room.
    """
    reasons = why if isinstance(why, Reason) else [(number, reason) for reason, number in why]
    key = "unavailable" if not fitting else "available" if fitting < nodes else "all-available"
    known = {"fitting": fitting, "nodes": nodes, "reasons": reasons or None, "nearest": nearest, "room": room}
    return Message(key, {name: value for name, value in known.items() if value is not None})
