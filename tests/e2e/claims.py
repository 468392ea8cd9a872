"""Claims, volumes and classes on a real API server, as a provisioner and the volume controller would have left them."""

from __future__ import annotations

from contextlib import suppress

from e2e.api import MERGE, Api, ApiError, Object

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
_SIZE = {"storage": "1Gi"}
_ONCE = ["ReadWriteOnce"]


def storage_class(name: str, provisioner: str, *, waits: bool = True, **more: object) -> Object:
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, **more}


def claim(name: str, storage_class: str = "", volume: str = "", **spec: object) -> Object:
    """A claim; with a volume it is bound as the controller leaves it."""
    done = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
    body: Object = {
        "metadata": {"name": name, "annotations": done if volume else {}},
        "spec": {
            "accessModes": _ONCE,
            "resources": {"requests": _SIZE},
            "storageClassName": storage_class,
            **spec,
        },
    }
    if volume:
        body["spec"]["volumeName"] = volume
    return body


def volume(
    name: str, storage_class: str = "", host: str = "", labels: Object | None = None, **spec: object
) -> Object:
    """A volume of a node, or of any."""
    body: Object = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "capacity": _SIZE,
            "accessModes": _ONCE,
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": "Retain",
            **spec,
        },
    }
    if not {"csi", "local"} & {*spec}:
        body["spec"]["hostPath"] = {"path": f"/data/{name}"}
    if host:
        term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}]}
        body["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return body


def mounts(pod: Object, *claims: str) -> Object:
    """The pod with these claims."""
    pod["spec"]["volumes"] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    return pod


def make(api: Api, path: str, body: Object) -> None:
    """The object, anew if there was one of that name."""
    remove(api, f"{path}/{body['metadata']['name']}")
    made = api.create(path, body)
    if path == VOLUMES:
        phase = "Bound" if "claimRef" in body["spec"] else "Available"
        api.patch(f"{path}/{made['metadata']['name']}/status", {"status": {"phase": phase}}, MERGE)


def remove(api: Api, path: str) -> None:
    """The object is gone at once; who protects it is not asked."""
    with suppress(ApiError):
        api.patch(path, {"metadata": {"finalizers": None}}, MERGE)
        api.delete(path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
