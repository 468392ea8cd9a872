"""Claims, volumes and what provides them, from an API server into the cluster's `Storage`.

Watched by whoever answers for pods with claims (`watches.py`); read once by commands that answer and end. Where an account may
not read them, only pods with claims have no answer, and say so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from numaware.kube import storage
from numaware.kube.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    Resource,
)
from numaware.schedule.storage import Storage, Stored
from numaware.serve.cluster_cache import ClusterCache
from numaware.workload.storage import Claim


class StorageKind(NamedTuple):
    """A kind of object, and who reads it."""

    name: str
    resource: Resource
    decode: Callable[[Any], Stored]


STORAGE_KINDS = (
    StorageKind("volume claims", PERSISTENT_VOLUME_CLAIMS, storage.decode_claim),
    StorageKind("volumes", PERSISTENT_VOLUMES, storage.decode_volume),
    StorageKind("storage classes", STORAGE_CLASSES, storage.decode_class),
    StorageKind("CSI nodes", CSI_NODES, storage.decode_node_drivers),
    StorageKind("CSI drivers", CSI_DRIVERS, storage.decode_driver),
    StorageKind("CSI storage capacities", CSI_STORAGE_CAPACITIES, storage.decode_capacity),
    StorageKind("volume attachments", VOLUME_ATTACHMENTS, storage.decode_attachment),
)


class StorageFeed:
    """Puts news into the storage of a cluster that has one; returns the nodes that may be open by it to pods that wait."""

    def __init__(self, cache: ClusterCache, storage: Storage) -> None:
        self._cache = cache
        self._storage = storage

    def put(self, old: Stored | None, new: Stored | None) -> Collection[str]:
        """A claim, a volume or what provides them is new, other, or gone."""
        if new is not None:
            self._storage.put(new)
        elif old is not None:
            self._storage.drop(old)
        return self._all_nodes() if self._storage.known and self._is_awaited(new) else ()

    def know(self) -> Collection[str]:
        """Everything there is has been listed."""
        self._storage.known = True
        return self._all_nodes() if self._cache.claimants else ()

    def _is_awaited(self, new: Stored | None) -> bool:
        waiting = self._cache.claimants
        if not isinstance(new, Claim):
            return bool(waiting)
        pods = [pod for uid in waiting if (pod := self._cache.pod(uid))]
        return any(pod.namespace == new.namespace and new.name in pod.pod.scheduling.claims for pod in pods)

    def _all_nodes(self) -> Collection[str]:
        return set(self._cache.engine.cluster.by_name)
