"""One admission told in a few lines of plain text, as the pages about the kubelet show it."""

from __future__ import annotations

from collections.abc import Iterator

from numaware.machine.cpuset import list_form
from numaware.twin.files import devices_by_node
from numaware.twin.kubelet import Kubelet
from numaware.twin.node import Merge, Node, Verdict
from numaware.twin.topology.hints import Hints
from numaware.workload.pod import Pod
from support.twin_nodes import GI


def told(node: Node, pod: Pod) -> str:
    """Every hint (`*` marks the preferred ones), what they merge into, and what each container gets or why not."""
    merges: list[Merge] = []
    verdict = node.admit(pod, merges.append)
    lines = [line for merge in merges for line in _merge(node.kubelet, merge)]
    lines += _outcome(node.kubelet, pod, verdict)
    return "\n".join(lines)


def _merge(kubelet: Kubelet, merge: Merge) -> Iterator[str]:
    if merge.container is not None:
        yield f"container {merge.container}"
    for answer in (merge.device, merge.cpu, merge.memory):
        for resource, hints in answer.items():
            yield f"  {resource.split('/')[-1]:8}{_listed(kubelet, hints)}"
    mask, preferred = merge.best
    best = "any" if mask is None else _nodes(kubelet, mask)
    yield f"  merged  {best}{'*' if preferred else ''}"


def _listed(kubelet: Kubelet, hints: Hints | None) -> str:
    if hints is None:
        return "any"
    return (
        " ".join(f"{_nodes(kubelet, mask)}{'*' if mask in hints.preferred else ''}" for mask in hints.masks)
        or "impossible"
    )


def _nodes(kubelet: Kubelet, mask: int) -> str:
    return "{" + ",".join(map(str, kubelet.layout.node_ids(mask))) + "}"


def _outcome(kubelet: Kubelet, pod: Pod, verdict: Verdict) -> Iterator[str]:
    if not verdict.admitted:
        yield f"refused: {verdict.reason}: {verdict.message}"
        return
    state = verdict.held
    for container in pod.in_order:
        cpus = state.cpu.owned.get(pod.uid, {}).get(container.name)
        parts = [f"CPUs {list_form(cpus)}" if cpus else "shared CPUs"]
        parts += [
            f"{block.size // GI}Gi on {_nodes(kubelet, block.nodes)}"
            for block in state.memory.blocks.get(pod.uid, {}).get(container.name, ())
        ]
        for resource, held in sorted(state.device.owned.get(pod.uid, {}).get(container.name, {}).items()):
            name = resource.split("/")[-1]
            for place, ids in devices_by_node(kubelet, resource, held).items():
                parts.append(f"{len(ids)} {name} on {{{place}}}")
        yield f"{container.name}: {', '.join(parts)}"
