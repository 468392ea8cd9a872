"""Where in an object the pods are described: the pod itself, or the pod templates somewhere below it.

Nearly every kind that makes pods keeps them under a key that ends in `template`, with `spec.containers` inside:
Deployment, Job, CronJob, Volcano's tasks, Kubeflow's and Ray's groups. One rule finds them all, also in kinds made
after this was written; only kinds that Kubernetes itself defines are known by name, to say what one of them lacks.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from numaware.workload.yamlfile import Node

_OWN_KINDS = {
    "Pod": "spec",
    "PodTemplate": "template.spec",
    "Deployment": "spec.template.spec",
    "ReplicaSet": "spec.template.spec",
    "ReplicationController": "spec.template.spec",
    "StatefulSet": "spec.template.spec",
    "DaemonSet": "spec.template.spec",
    "Job": "spec.template.spec",
    "CronJob": "spec.jobTemplate.spec.template.spec",
}
_OWN_GROUPS = ("v1", "apps", "batch", "extensions")


class Template(msgspec.Struct, frozen=True):
    """One description of pods: its node, its path from the object, and what stands beside it.

    `group` is the name of the task or worker group where an object has several; `holder` is the mapping that holds
    the template, with the number of copies.
    """

    node: Node
    path: str
    holder: Node
    group: str = ""

    @property
    def spec_path(self) -> str:
        return f"{self.path}.spec" if self.path else "spec"


def required_spec(node: Node) -> str | None:
    """Where an object of one of Kubernetes' own kinds must describe its pods; None for any other kind."""
    version = node.get("apiVersion").text or "v1"
    if version.split("/")[0] not in _OWN_GROUPS:
        return None
    return _OWN_KINDS.get(node.get("kind").text or "")


def templates(root: Node) -> Iterator[Template]:
    """The pod templates of one object, in the order of the file."""
    kind = root.get("kind").text
    if kind == "Pod" or (kind is None and isinstance(root.get("spec", "containers").value, list)):
        yield Template(root, "", root)
        return
    # An alias may lead to one mapping by many ways; each is walked once.
    seen = set()
    stack = [(root, "", "")]
    while stack:
        node, path, group = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        below = []
        for key, child in node.mapping.items():
            child_path = f"{path}.{key}" if path else key
            if key.endswith(("template", "Template")) and isinstance(
                child.get("spec", "containers").value, list
            ):
                yield Template(child, child_path, node, _group(node, path, key) or group)
            elif isinstance(child.value, dict | list):
                below.append((child, child_path, group))
        for index, child in enumerate(node.items):
            below.append((child, f"{path}[{index}]", child.get("name").text or group))
        stack.extend(reversed(below))


def _group(holder: Node, path: str, key: str) -> str:
    """What people call this group of pods: its name, or the key it stands under if that says more than `spec`."""
    name = holder.get("name").text or holder.get("groupName").text
    if name or key != "template":
        return name or key
    last = path.rsplit(".", 1)[-1]
    return "" if last in ("", "spec") or last.endswith("]") else last
