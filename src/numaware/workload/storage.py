"""Claims, volumes and what provides them, as values: what decides on which nodes a pod's volumes can be had.

`kube/storage.py` reads them from an API server, `schedule/storage.py` keeps them, `schedule/filters/volumes.py` judges by them.
Sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from numaware.workload.scheduling import Labels, NodeTerm, Selector

# (namespace, name)
ClaimKey = tuple[str, str]

READ_WRITE_ONCE_POD = "ReadWriteOncePod"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


class Claim(msgspec.Struct, frozen=True):
    """A PersistentVolumeClaim. `bound` is whether its volume is known on both sides; `owner` the uid of its controller."""

    namespace: str
    name: str
    uid: str = ""
    version: str = ""
    phase: str = ""
    storage_class: str = ""
    volume: str = ""
    bound: bool = False
    deleting: bool = False
    modes: tuple[str, ...] = ()
    size: int = 0
    block: bool = False
    selector: Selector | None = None
    attributes_class: str = ""
    selected_node: str = ""
    owner: str = ""

    @property
    def key(self) -> ClaimKey:
        return self.namespace, self.name


class Volume(msgspec.Struct, frozen=True):
    """A PersistentVolume. `affinity` are the terms of which a node has to match one, None if any node will do.

    `claim` is whom it is bound or promised to, with the uid of that claim where it is said. `driver` and `handle` name it to
    whoever attaches it; `plugin` is the in-tree plugin of one that has no driver of its own.
    """

    name: str
    version: str = ""
    phase: str = ""
    storage_class: str = ""
    size: int = 0
    modes: tuple[str, ...] = ()
    block: bool = False
    labels: Labels = ()
    affinity: tuple[NodeTerm, ...] | None = None
    claim: ClaimKey | None = None
    claim_uid: str = ""
    deleting: bool = False
    attributes_class: str = ""
    driver: str = ""
    handle: str = ""
    plugin: str = ""

    def is_for(self, claim: Claim) -> bool:
        """Whether it is bound or promised to this very claim."""
        return self.claim == claim.key and self.claim_uid in ("", claim.uid)

    def reaches(self, node: str, labels: Mapping[str, str]) -> bool:
        """Whether it can be had on the node of that name, which has these labels."""
        return self.affinity is None or any(term.matches(node, labels) for term in self.affinity)


class StorageClass(msgspec.Struct, frozen=True):
    """A StorageClass. `waits`: volumes are bound when a pod wants them. `topologies`: any term, all of its labels."""

    name: str
    provisioner: str = ""
    waits: bool = False
    topologies: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = ()


class NodeDrivers(msgspec.Struct, frozen=True):
    """A CSINode: its drivers, and how many volumes each can attach to the node at most, None if it does not say."""

    node: str
    drivers: tuple[tuple[str, int | None], ...] = ()


class StorageDriver(msgspec.Struct, frozen=True):
    """A CSIDriver; one that `tracks` says where how much can be provisioned (CSIStorageCapacity).

    One that is `required` wants no pods with its volumes on nodes that do not have it.
    """

    name: str
    tracks: bool = False
    required: bool = False


class StorageCapacity(msgspec.Struct, frozen=True):
    """The largest volume of a class that can be provisioned for the nodes that `nodes` selects; None: none at all.

    `total` is what there is for all volumes together.
    """

    name: str
    storage_class: str
    largest: int | None = None
    nodes: Selector | None = None
    total: int = 0


class Attachment(msgspec.Struct, frozen=True):
    """A VolumeAttachment: a volume that is attached to a node, whoever wanted it there."""

    name: str
    node: str = ""
    driver: str = ""
    volume: str = ""


class VolumePlan(msgspec.Struct, frozen=True):
    """What has to be done before a pod can be bound to a node: volumes that claims get, claims to be provisioned there."""

    node: str
    bindings: tuple[tuple[ClaimKey, str], ...] = ()
    provisions: tuple[ClaimKey, ...] = ()
