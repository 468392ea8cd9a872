"""PriorityClasses of the API server: what the name of a class is worth."""

from __future__ import annotations

from typing import Literal

import msgspec

from numaware.kube.decoding import Metadata, Reader, Wire


class PriorityClass(msgspec.Struct, frozen=True):
    """One class. `preempts` says whether its pods may push others out; at most one class is the default of a cluster."""

    name: str
    value: int
    preempts: bool
    default: bool
    version: str


def decode(raw: bytes | msgspec.Raw) -> PriorityClass:
    """One class; `DecodeError` for what cannot be read."""
    wire = _CLASS.read(raw)
    return PriorityClass(
        name=wire.metadata.name,
        value=wire.value,
        preempts=wire.preemption_policy != "Never",
        default=bool(wire.global_default),
        version=wire.metadata.resource_version,
    )


class _Class(Wire):
    metadata: Metadata
    value: int
    preemption_policy: Literal["PreemptLowerPriority", "Never"] | None = None
    global_default: bool | None = None


_CLASS = Reader("priority class", _Class)
