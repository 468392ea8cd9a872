"""What one publisher tells of one node, whoever it is: the value that every topology object is read into.

Publishers differ in how much they tell. Our own agent tells everything, and its report carries a twin; others count what
each NUMA node has, could give and has left. A report that makes no sense carries a problem instead, and its node is not
placed by it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from numaware.kube.topology.fingerprint import Method
from numaware.machine.node_topology import ZoneCounts
from numaware.twin.node import Node

Publisher = Literal["numaware", "nfd", "rte", "koordinator", "volcano", "unknown"]


class Complete(NamedTuple):
    """All of a node, from our own agent: its twin as it was at `generation`, with every pod that its kubelet has taken."""

    node: Node
    generation: int


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
