"""PriorityClasses of the API server: what the name of a class is worth."""

from __future__ import annotations

import msgspec

from numaware.kube.decoding import Metadata, Reader, Wire


class PriorityClass(msgspec.Struct, frozen=True):
    """One class; at most one is the default of a cluster."""

    name: str
    value: int
    default: bool


def decode(raw: bytes | msgspec.Raw) -> PriorityClass:
    """One class; `DecodeError` for what cannot be read."""
    wire = _CLASS.read(raw)
    return PriorityClass(wire.metadata.name, wire.value, bool(wire.global_default))


class _Class(Wire):
    metadata: Metadata
    value: int
    global_default: bool | None = None


_CLASS = Reader("priority class", _Class)
