"""Nodes of the API server: the few fields that scheduling needs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from numaware.kube.decoding import Metadata, Reader, Wire, count
from numaware.kube.pods import Condition
from numaware.workload.demand import Amounts
from numaware.workload.scheduling import OWN_ANNOTATIONS, Effect, Labels


class LiveTaint(msgspec.Struct, frozen=True):
    """What keeps pods off a node unless they tolerate it."""

    key: str
    effect: Effect
    value: str = ""


class LiveNode(msgspec.Struct, frozen=True):
    """One node as the API server has it.

    Amounts are counted as schedulers do (CPU in thousandths, everything else in whole units) and, like labels, ascend by
    name. Of the annotations only our own are kept. `ready` is False unless its kubelet says so.
    """

    name: str
    uid: str
    version: str
    labels: Labels
    annotations: Labels
    taints: tuple[LiveTaint, ...]
    unschedulable: bool
    allocatable: Amounts
    capacity: Amounts
    kubelet_version: str
    ready: bool
    created: datetime | None
    deletion: datetime | None

    def same_but_version(self, other: LiveNode) -> bool:
        """Whether nothing that matters has changed; a node's status is written again and again."""
        return msgspec.structs.replace(self, version=other.version) == other


def decode(raw: bytes | msgspec.Raw) -> LiveNode:
    """One node; `DecodeError` for what cannot be read."""
    wire = _NODE.read(raw)
    metadata, spec, status = wire.metadata, wire.spec, wire.status
    try:
        allocatable, capacity = _amounts(status.allocatable), _amounts(status.capacity)
    except ValueError as error:
        raise _NODE.refused(raw, str(error)) from None
    ready = next((one.status for one in status.conditions or () if one.type == "Ready"), "")
    return LiveNode(
        name=metadata.name,
        uid=metadata.uid,
        version=metadata.resource_version,
        labels=tuple(sorted((metadata.labels or {}).items())),
        annotations=tuple(
            sorted(
                pair for pair in (metadata.annotations or {}).items() if pair[0].startswith(OWN_ANNOTATIONS)
            )
        ),
        taints=spec.taints or (),
        unschedulable=bool(spec.unschedulable),
        allocatable=allocatable,
        capacity=capacity,
        kubelet_version=status.node_info.kubelet_version,
        ready=ready == "True",
        created=metadata.creation_timestamp,
        deletion=metadata.deletion_timestamp,
    )


def _amounts(amounts: Mapping[str, str | int] | None) -> Amounts:
    return tuple(sorted((name, count(name, text)) for name, text in (amounts or {}).items()))


class _Spec(Wire):
    taints: tuple[LiveTaint, ...] | None = None
    unschedulable: bool | None = None


class _Info(Wire):
    kubelet_version: str = ""


class _Status(Wire):
    allocatable: dict[str, str | int] | None = None
    capacity: dict[str, str | int] | None = None
    conditions: tuple[Condition, ...] | None = None
    node_info: _Info = msgspec.field(default_factory=_Info)


class _Node(Wire):
    metadata: Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_NODE = Reader("node", _Node)
