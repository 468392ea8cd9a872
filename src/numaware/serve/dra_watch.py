"""Slices, claims and classes of DRA, from an API server into the cluster's `DraObjects`.

Watched by whoever watches a cluster (`watches.py`), read once by commands that answer and end. A server may have no
`resource.k8s.io`, and an account may not be allowed to read it: then nobody can tell where such devices are, and that is said.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from numaware.kube import dra
from numaware.kube.resources import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from numaware.serve.cluster_cache import ClusterCache
from numaware.workload.dra.objects import DeviceClass, DraObject


class DraKind(NamedTuple):
    """A kind of object, and who reads it."""

    name: str
    resource: Resource
    decode: Callable[[Any], DraObject]


# Which resources are such devices: whoever judges nodes has to know that.
CLASSES = DraKind("device classes", DEVICE_CLASSES, dra.decode_class)
# Where devices are and who has them: only whoever shows that to people reads these.
DEVICES = (
    DraKind("resource slices", RESOURCE_SLICES, dra.decode_slice),
    DraKind("resource claims", RESOURCE_CLAIMS, dra.decode_claim),
)


class DraFeed:
    """Puts news into what the cluster knows of DRA; returns the nodes that may answer a pod otherwise by it."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cluster = cache.engine.cluster

    def put(self, old: DraObject | None, new: DraObject | None) -> Collection[str]:
        """An object is new, other, or gone."""
        if new is not None:
            self._cluster.dra.put(new)
        elif old is not None:
            self._cluster.dra.drop(old)
        if _served_by(old) == _served_by(new):
            return ()
        # A class decides which resources are not the node's to count.
        self._cluster.changed_around()
        return set(self._cluster.by_name)


def _served_by(one: DraObject | None) -> tuple[str, str] | None:
    """By which class what is served, if it is one."""
    return (one.name, one.resource) if isinstance(one, DeviceClass) else None
