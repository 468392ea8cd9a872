"""Apply a proposed change by nothing but its patch, the way a user would, and ask the twin again."""

from __future__ import annotations

from typing import Any

import msgspec

from numaware.machine.quantity import Quantity
from numaware.twin.kubelet import start
from numaware.twin.node import Node, Verdict
from numaware.workload.pod import Container, Pod, Resources

_POD_FIELDS = {"containers": "containers", "initContainers": "init_containers"}
_CONFIG_FIELDS = {
    "topologyManagerPolicy": "topology_policy",
    "topologyManagerScope": "topology_scope",
    "topologyManagerPolicyOptions": "topology_options",
    "cpuManagerPolicyOptions": "cpu_options",
}


def verdict_after(node: Node, pod: Pod, kind: str, patch: dict[str, Any]) -> Verdict:
    """What the twin says once a change is made; a request's patch is one of the pod spec."""
    if kind == "request":
        return node.admit(patched_pod(pod, patch))
    if kind == "evict":
        return node.release(*(victim["uid"] for victim in patch["evict"])).admit(pod)
    changed = {
        _CONFIG_FIELDS[field]: tuple(sorted(value.items())) if isinstance(value, dict) else value
        for field, value in patch.items()
    }
    config = msgspec.structs.replace(node.kubelet.config, **changed)
    return Node(start(node.kubelet.hardware, config), node.state).admit(pod)


def patched_pod(pod: Pod, patch: dict[str, Any]) -> Pod:
    """A pod after a strategic merge of its spec: containers are matched by name, maps are joined."""
    for field, changes in patch.items():
        by_name = {change["name"]: change["resources"] for change in changes}
        containers: tuple[Container, ...] = getattr(pod, _POD_FIELDS[field])
        assert by_name.keys() <= {container.name for container in containers}
        changed = tuple(
            msgspec.structs.replace(
                container,
                requests=_merged(container.requests, by_name.get(container.name, {}).get("requests", {})),
                limits=_merged(container.limits, by_name.get(container.name, {}).get("limits", {})),
            )
            for container in containers
        )
        pod = msgspec.structs.replace(pod, **{_POD_FIELDS[field]: changed})
    return pod


def _merged(resources: Resources, changes: dict[str, str]) -> Resources:
    new = {name: Quantity.parse(text).nano for name, text in changes.items()}
    return tuple(sorted({**dict(resources), **new}.items()))
