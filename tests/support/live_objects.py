"""Objects as an API server sends them, with the noise that real ones carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


def pod_object(
    name: str = "web-0",
    *,
    cpu: str = "2",
    memory: str = "1Gi",
    uid: str | None = None,
    node: str | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    """A Guaranteed pod with what admission and the scheduler add: a token volume of random name, tolerations, fields."""
    wanted = {"cpu": cpu, "memory": memory}
    container = {
        "name": "app",
        "image": "registry.example/app:1",
        "resources": {"limits": wanted, "requests": wanted},
        "volumeMounts": [{"name": f"kube-api-access-{name}", "mountPath": "/var/run/secrets"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}" if uid is None else uid,
            "resourceVersion": "17",
            "creationTimestamp": "2026-11-15T12:00:00Z",
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:metadata": {}}}],
            **metadata,
        },
        "spec": {
            "containers": [container],
            "volumes": [{"name": f"kube-api-access-{name}", "projected": {"sources": []}}],
            "schedulerName": "numaware",
            **({"nodeName": node} if node else {}),
            **(spec or {}),
        },
        "status": {"phase": "Running" if node else "Pending", "qosClass": "Guaranteed", **(status or {})},
    }


def node_object(name: str = "n1", cpus: int = 16, **changes: Any) -> dict[str, Any]:
    amounts = {"cpu": str(cpus), "memory": "65536Mi", "pods": "110", "nvidia.com/gpu": "2"}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {"zone": "a", "arch": "amd64"}},
        "spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.35.8"},
            "images": [{"names": ["x"], "sizeBytes": 1}],
        },
        **changes,
    }


def raw(document: Any) -> bytes:
    return msgspec.json.encode(document)
