"""Services and controllers of the API server: whose pods are replicas of one thing, by their selectors."""

from __future__ import annotations

import msgspec

from numaware.kube.decoding import Metadata, Reader, Wire
from numaware.kube.label_selectors import WireSelector, same_labels
from numaware.workload.scheduling import Selector


class Service(msgspec.Struct, frozen=True):
    """A Service; without a selector somebody else says which pods it has."""

    namespace: str
    name: str
    selector: dict[str, str]


class Controller(msgspec.Struct, frozen=True):
    """A ReplicaSet, StatefulSet or ReplicationController."""

    namespace: str
    name: str
    selector: Selector


def decode_service(raw: bytes | msgspec.Raw) -> Service:
    """One Service; `DecodeError` for what cannot be read."""
    wire = _SERVICE.read(raw)
    return Service(wire.metadata.namespace, wire.metadata.name, wire.spec.selector or {})


def decode_controller(raw: bytes | msgspec.Raw) -> Controller:
    """One ReplicaSet or StatefulSet; `DecodeError` for what cannot be read."""
    wire = _CONTROLLER.read(raw)
    return Controller(wire.metadata.namespace, wire.metadata.name, wire.spec.selector.value)


def decode_replication_controller(raw: bytes | msgspec.Raw) -> Controller:
    """One ReplicationController, whose selector is older and only names labels; `DecodeError` for what cannot be read."""
    wire = _REPLICATION_CONTROLLER.read(raw)
    return Controller(wire.metadata.namespace, wire.metadata.name, same_labels(wire.spec.selector or {}))


class _Labels(Wire):
    selector: dict[str, str] | None = None


class _Selecting(Wire):
    selector: WireSelector = msgspec.field(default_factory=WireSelector)


class _Service(Wire):
    metadata: Metadata
    spec: _Labels = msgspec.field(default_factory=_Labels)


class _Controller(Wire):
    metadata: Metadata
    spec: _Selecting = msgspec.field(default_factory=_Selecting)


_SERVICE = Reader("service", _Service)
_CONTROLLER = Reader("controller", _Controller)
_REPLICATION_CONTROLLER = Reader("replication controller", _Service)
