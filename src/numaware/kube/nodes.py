"""Nodes of the API server: the few fields that scheduling needs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from numaware.kube.decoding import Condition, Metadata, Reader, Wire, condition, count
from numaware.workload.demand import Amounts
from numaware.workload.scheduling import Effect, Labels


class LiveTaint(msgspec.Struct, frozen=True):
    """What keeps pods off a node unless they tolerate it."""

    key: str
    effect: Effect
    value: str = ""


class LiveNode(msgspec.Struct, frozen=True):
    """One node as the API server has it; a status that is written again and changes none of this gives an equal value.

    Amounts are counted as schedulers do (CPU in thousandths, everything else in whole units) and, like labels, ascend by
    name. `ready` is False unless its kubelet says so. `images` are bytes by every name that an image goes by.
    """

    name: str
    uid: str
    labels: Labels
    taints: tuple[LiveTaint, ...]
    unschedulable: bool
    allocatable: Amounts
    capacity: Amounts
    kubelet_version: str
    ready: bool
    runtime: str = ""
    images: tuple[tuple[str, int], ...] = ()
    features: tuple[str, ...] = ()


def decode(raw: bytes | msgspec.Raw) -> LiveNode:
    """One node; `DecodeError` for what cannot be read."""
    wire = _NODE.read(raw)
    metadata, spec, status = wire.metadata, wire.spec, wire.status
    try:
        allocatable, capacity = _amounts(status.allocatable), _amounts(status.capacity)
    except ValueError as error:
        raise _NODE.refused(raw, str(error)) from None
    return LiveNode(
        name=metadata.name,
        uid=metadata.uid,
        labels=tuple(sorted((metadata.labels or {}).items())),
        taints=spec.taints or (),
        unschedulable=bool(spec.unschedulable),
        allocatable=allocatable,
        capacity=capacity,
        kubelet_version=status.node_info.kubelet_version,
        ready=condition(status.conditions, "Ready").status == "True",
        runtime=status.node_info.container_runtime_version,
        features=tuple(sorted(status.declared_features or ())),
        images=tuple(
            sorted(
                {
                    name: image.size_bytes for image in status.images or () for name in image.names or ()
                }.items()
            )
        ),
    )


def said_ready(raw: bytes | msgspec.Raw) -> datetime | None:
    """When its kubelet last said that it is ready; None if it says anything else.

    No part of `LiveNode`: it changes all the time, and nobody takes it back when a kubelet is stopped.
    """
    for one in _NODE.read(raw).status.conditions or ():
        if one.type == "Ready" and one.status == "True":
            return one.last_heartbeat_time
    return None


def _amounts(amounts: Mapping[str, str | int] | None) -> Amounts:
    return tuple(sorted((name, count(name, text)) for name, text in (amounts or {}).items()))


class _Spec(Wire):
    taints: tuple[LiveTaint, ...] | None = None
    unschedulable: bool | None = None


class _Info(Wire):
    kubelet_version: str = ""
    container_runtime_version: str = ""


class _Condition(Condition, frozen=True):
    last_heartbeat_time: datetime | None = None


class _Image(Wire):
    names: tuple[str, ...] | None = None
    size_bytes: int = 0


class _Status(Wire):
    allocatable: dict[str, str | int] | None = None
    capacity: dict[str, str | int] | None = None
    conditions: tuple[_Condition, ...] | None = None
    declared_features: tuple[str, ...] | None = None
    images: tuple[_Image, ...] | None = None
    node_info: _Info = msgspec.field(default_factory=_Info)


class _Node(Wire):
    metadata: Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_NODE = Reader("node", _Node)
