"""The kinds of objects we read and write, and where an API server keeps them."""

from __future__ import annotations

import re
from urllib.parse import quote

import msgspec

from numaware.errors import InputError

_PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")


class Resource(msgspec.Struct, frozen=True):
    """One kind of object: its group ("" for the core), version, name in addresses, kind, and whether it lives in namespaces."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def head(self) -> dict[str, str]:
        """How an object says that it is one of these."""
        version = f"{self.group}/{self.version}" if self.group else self.version
        return {"apiVersion": version, "kind": self.kind}

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The address of one object or, without a name, of all in a namespace, or of all.

        A name may come from a person or from another object: it is escaped, and cannot climb out of its place.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        where = f"{root}/namespaces/{_segment(namespace)}" if namespace and self.namespaced else root
        path = f"{where}/{self.plural}"
        if name:
            path += f"/{_segment(name)}"
        return f"{path}/{subresource}" if subresource else path


def _segment(name: str) -> str:
    # Names of objects are nearly always like this, and escaping them would be a good part of a bind.
    if _PLAIN.fullmatch(name):
        return name
    if name in {".", ".."}:
        raise InputError(repr(name), "is no name of an object")
    return quote(name, safe="")


PODS = Resource("", "v1", "pods", "Pod")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SERVICES = Resource("", "v1", "services", "Service")
REPLICATION_CONTROLLERS = Resource("", "v1", "replicationcontrollers", "ReplicationController")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
CSI_STORAGE_CAPACITIES = Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
VOLUME_ATTACHMENTS = Resource(
    "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False
)
RESOURCE_SLICES = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False)
RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
# The newer of the two doors to the same events, and the one kube-scheduler uses: a repeat is a series with its own
# count, which the old one only has as a deprecated field, and an event can name a second object it relates to.
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
SELF_SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
NODE_RESOURCE_TOPOLOGIES = Resource(
    "topology.node.k8s.io", "v1alpha2", "noderesourcetopologies", "NodeResourceTopology", namespaced=False
)
OENUMAS = Resource("resource.sop.huawei.com", "v1alpha1", "oenumas", "Oenuma")
NUMATOPOLOGIES = Resource(
    "nodeinfo.volcano.sh", "v1alpha1", "numatopologies", "Numatopology", namespaced=False
)
WHITELISTS = Resource("resource.sop.huawei.com", "v1alpha1", "whitelists", "Whitelist")
NODE_TRAFFICS = Resource("numaware.io", "v1alpha1", "nodetraffics", "NodeTraffic", namespaced=False)
KUBELET_POLICIES = Resource("numaware.io", "v1alpha1", "kubeletpolicies", "KubeletPolicy", namespaced=False)
