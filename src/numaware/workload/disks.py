"""Disks that a pod names itself, without a claim, and the CSI drivers that have taken over such disks."""

from __future__ import annotations

from typing import Literal

import msgspec

# How Kubernetes calls the plugins that mount them.
DiskKind = Literal["gce-pd", "aws-ebs", "azure-disk", "cinder", "iscsi", "rbd"]

# In-tree plugins whose volumes CSI drivers have taken over, and which.
MIGRATED_TO = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
}


class Disk(msgspec.Struct, frozen=True, order=True):
    """A disk that a pod names itself. `monitors` are those of an RBD image, whose `name` is pool and image."""

    kind: DiskKind
    name: str
    read_only: bool = False
    monitors: tuple[str, ...] = ()

    def conflicts(self, other: Disk) -> bool:
        """Whether two pods of one node cannot both have it."""
        if (self.kind, self.name) != (other.kind, other.name) or self.kind in ("azure-disk", "cinder"):
            return False
        if self.kind == "aws-ebs":
            return True
        if self.kind == "rbd" and not {*self.monitors} & {*other.monitors}:
            return False
        return not (self.read_only and other.read_only)

    @property
    def driver(self) -> str:
        """The CSI driver that attaches it, empty where none does."""
        return MIGRATED_TO.get(f"kubernetes.io/{self.kind}", "")
