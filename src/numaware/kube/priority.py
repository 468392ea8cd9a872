"""PriorityClasses of the API server: what the name of a class is worth."""

from __future__ import annotations

from numaware.kube.decoding import Metadata, Reader, Wire


class PriorityClass(Wire):
    """One class; at most one is the default of a cluster."""

    metadata: Metadata
    value: int
    global_default: bool | None = None


decode = Reader("priority class", PriorityClass).read
