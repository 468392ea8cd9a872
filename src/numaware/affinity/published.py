"""What an agent publishes of the talk on its node: one NodeTraffic for each node, with its name. The schema is in deploy/crd.

The agent writes it and the console reads it, both through here. It holds the report as it is, bounded as that is.
"""

from __future__ import annotations

from typing import Any

import msgspec

from numaware.affinity.report import NodeReport
from numaware.kube.decoding import DecodeError, Metadata, OwnerReference, Reader, Wire
from numaware.kube.resources import NODE_TRAFFICS
from numaware.kube.topology.publish import object_head

# The field of the object that the report stands in.
FIELD = "report"


class _NodeTraffic(Wire):
    metadata: Metadata
    report: NodeReport


_READER = Reader(NODE_TRAFFICS.kind, _NodeTraffic)


def encode(report: NodeReport, owner: OwnerReference | None = None) -> dict[str, Any]:
    """The object as its agent applies it; it goes when its `owner`, the Node, goes."""
    return {**object_head(NODE_TRAFFICS, report.node, owner), FIELD: msgspec.to_builtins(report)}


def decode(raw: bytes | msgspec.Raw) -> NodeReport:
    """What stands in one; `DecodeError` for one that is of another node than it says, or names pods that it does not have."""
    found = _READER.read(raw)
    name, report = found.metadata.name, found.report
    if report.node != name:
        raise DecodeError(f"NodeTraffic {name}", "is of another node than its name says")
    if any(not 0 <= end < len(report.pods) for edge in report.edges for end in (edge.one, edge.other)):
        raise DecodeError(f"NodeTraffic {name}", "has talk of pods that it does not name")
    return report
