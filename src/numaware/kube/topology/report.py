"""What one publisher tells of one node, whoever it is: the value that every topology object is read into.

Publishers differ in how much they tell. Our own agent tells everything, and its report carries a twin; others count what
each NUMA node has, could give and has left. A report that makes no sense carries a problem instead, and its node is not
placed by it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple

import msgspec

from numaware.kube.topology.fingerprint import Method
from numaware.machine.node_topology import MOST_NUMA, ZoneCounts
from numaware.twin.node import Node

Publisher = Literal["numaware", "nfd", "rte", "koordinator", "volcano", "unknown"]


class Complete(NamedTuple):
    """All of a node, from our own agent: its twin as it was at `generation`, with every pod that its kubelet has taken."""

    node: Node
    generation: int


def check_numa_ids(ids: Collection[int]) -> None:
    """Refuse NUMA nodes that nothing can be placed by: too many, or numbers with gaps. `ValueError` says which."""
    if len(ids) > MOST_NUMA:
        raise ValueError(f"has {len(ids)} NUMA nodes; at most {MOST_NUMA} can be placed by")
    if sorted(ids) != list(range(len(ids))):
        # Publishers count distances without gaps, and where ids have some nobody can tell what they belong to.
        raise ValueError(f"NUMA ids have gaps ({', '.join(map(str, sorted(ids)[:8]))})")


class Report(msgspec.Struct, frozen=True):
    """One topology object. None is "nobody has told"; with a `problem` nothing else is to be trusted.

    `fingerprint` names the pods that were counted. `threads` is how many CPUs a core has. `owner` is the uid of the Node
    that the object belongs to, where it says so.
    """

    node: str
    version: str
    publisher: Publisher
    zones: tuple[ZoneCounts, ...] = ()
    policy: str | None = None
    scope: str | None = None
    cpu_policy: str | None = None
    threads: int | None = None
    fingerprint: str = ""
    method: Method = "all"
    complete: Complete | None = None
    owner: str = ""
    problem: str = ""
