"""What fake kubelets write: their Node as it registers itself, and what becomes of a pod."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from e2e.fake_kubelet import Admission, FakeKubelet
from numaware.schedule.ledger import OBSERVED, encode

_NOT_MADE = "not of this fake node"


def node_object(kubelet: FakeKubelet) -> dict[str, Any]:
    """The Node that a kubelet creates when it finds none of its name."""
    spec, twin = kubelet.spec, kubelet.twin
    numa = twin.kubelet.hardware.numa
    capacity = {
        **kubelet.allocatable,
        "cpu": 1000 * twin.kubelet.layout.cpu_count,
        "memory": sum(node.memory_bytes for node in numa),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": spec.name, "labels": dict(kubelet.facts.labels)},
        "spec": {
            "taints": [
                {"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in spec.taints
            ]
        },
        "status": {
            "capacity": _amounts(capacity),
            "allocatable": _amounts(kubelet.allocatable),
            "conditions": [_condition("Ready", "KubeletReady")],
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "kubeletVersion": spec.config.version,
                "containerRuntimeVersion": "fake://1",
                **dict.fromkeys(
                    ("bootID", "kernelVersion", "kubeProxyVersion", "machineID", "osImage", "systemUUID"),
                    _NOT_MADE,
                ),
            },
        },
    }


def pod_patch(admission: Admission) -> dict[str, Any]:
    """What a kubelet and the agent beside it say of a pod once it runs or is refused; only for the pod of this uid."""
    metadata: dict[str, Any] = {"uid": admission.pod.uid}
    if not admission.admitted:
        return {
            "metadata": metadata,
            "status": {
                "phase": "Failed",
                "reason": admission.reason,
                "message": f"Pod was rejected: {admission.message}",
                "startTime": _now(),
            },
        }
    if admission.placement is not None:
        metadata["annotations"] = {OBSERVED: encode(admission.placement)}
    return {
        "metadata": metadata,
        "status": {
            "phase": "Running",
            "startTime": _now(),
            "conditions": [_condition(kind) for kind in ("Initialized", "Ready", "ContainersReady")],
        },
    }


def finished_patch(uid: str) -> dict[str, Any]:
    conditions = [{**_condition(kind), "status": "False"} for kind in ("Ready", "ContainersReady")]
    return {"metadata": {"uid": uid}, "status": {"phase": "Succeeded", "conditions": conditions}}


def _amounts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in sorted(amounts.items())}


def _condition(kind: str, reason: str = "") -> dict[str, str]:
    condition = {"type": kind, "status": "True", "lastTransitionTime": _now()}
    return {**condition, "reason": reason} if reason else condition


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
