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
from numaware.workload.storage import Claim, ClaimKey, StorageCapacity, StorageClass, Volume


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
    """Puts news into the storage of a cluster that has one; returns the pods that wait and may have another answer by it."""

    def __init__(self, cache: ClusterCache, storage: Storage) -> None:
        self._cache = cache
        self._storage = storage

    def put(self, old: Stored | None, new: Stored | None) -> Collection[str]:
        """A claim, a volume or what provides them is new, other, or gone.

        Volumes of others come and go all the time; who has nothing to do with them is not asked again.
        """
        if new is not None:
            self._storage.put(new)
        elif old is not None:
            self._storage.drop(old)
        if not self._storage.known:
            return ()
        news = [one for one in (old, new) if one is not None]
        return {
            uid
            for uid in self._cache.claimants
            if (live := self._cache.pod(uid))
            and any(
                self._concerns((live.namespace, name), one)
                for name in live.pod.scheduling.claims
                for one in news
            )
        }

    def know(self) -> Collection[str]:
        """Everything there is has been listed."""
        self._storage.known = True
        return set(self._cache.claimants)

    def _concerns(self, key: ClaimKey, one: Stored) -> bool:
        """Whether a pod with this claim may have another answer by what is said of `one`."""
        claim = self._storage.claims.get(key)
        match one:
            case Claim():
                return one.key == key
            case _ if claim is None:
                return False
            case Volume() if claim.volume or one.claim:
                return claim.volume == one.name or one.is_for(claim)
            case Volume() | StorageCapacity():
                return not claim.volume and one.storage_class == claim.storage_class
            case StorageClass():
                return not claim.volume and one.name == claim.storage_class
            case _:
                # How many volumes a node can have, or has.
                return True
