"""Namespaces of the API server: their labels, by which rules of pods select them."""

from __future__ import annotations

import msgspec

from numaware.kube.decoding import Metadata, Reader, Wire
from numaware.workload.scheduling import Labels


class Namespace(msgspec.Struct, frozen=True):
    """One namespace; labels ascend by name."""

    name: str
    labels: Labels


def decode(raw: bytes | msgspec.Raw) -> Namespace:
    """One namespace; `DecodeError` for what cannot be read."""
    metadata = _NAMESPACE.read(raw).metadata
    return Namespace(metadata.name, tuple(sorted((metadata.labels or {}).items())))


class _Namespace(Wire):
    metadata: Metadata


_NAMESPACE = Reader("namespace", _Namespace)
