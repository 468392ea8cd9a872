"""Pods against the kinds of nodes that there are: proven on empty nodes, so that no luck can help.

What an empty node refuses, it refuses for ever; a pod that every kind refuses waits or fails until somebody changes
it or buys another machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from numaware.diagnose.evidence.source_text import SourceText
from numaware.diagnose.explain.caveats import beyond_the_node
from numaware.diagnose.explain.change import Change
from numaware.diagnose.explain.explanation import Explanation, explain
from numaware.diagnose.finding import Finding, Message, finding
from numaware.diagnose.rules.manifests import subject_of
from numaware.diagnose.texts import Words
from numaware.twin.account import account
from numaware.twin.errors import KubeletPanic
from numaware.twin.node import Merge, Node
from numaware.workload.demand import demand, is_memory
from numaware.workload.manifest import Workload
from numaware.workload.pod import amount

# Kinds told one by one.
_MOST = 12
# Besides the first.
_MOST_REMEDIES = 3


class NodeKind(NamedTuple):
    """Nodes that differ in nothing the kubelet looks at: the name of one, an empty one, and how many there are."""

    name: str
    node: Node
    number: int = 1


def kinds_of(nodes: Sequence[tuple[str, Node]]) -> tuple[NodeKind, ...]:
    """Empty nodes sorted into kinds, in the order in which they first come."""
    kinds: dict[int, NodeKind] = {}
    for name, node in nodes:
        known = kinds.get(id(node.kubelet))
        kinds[id(node.kubelet)] = known._replace(number=known.number + 1) if known else NodeKind(name, node)
    return tuple(kinds.values())


def fitting_findings(
    workload: Workload, source: SourceText, cluster: str, kinds: Sequence[NodeKind]
) -> Iterator[Finding]:
    """Whether these pods can ever run, and how badly the memory they ask for sits."""
    refusals: list[_Refusal] = []
    for kind in kinds:
        refusal = _refusal(workload, kind)
        if refusal is None:
            break
        refusals.append(refusal)
    else:
        yield _never_fits(workload, source, cluster, refusals)
    yield from _wide_memory(workload, source, kinds)
    yield from _devices_without_topology(workload, source, kinds)


class _Refusal(NamedTuple):
    kind: NodeKind
    reason: str
    why: tuple[Words, ...]
    changes: tuple[Change, ...]


def _refusal(workload: Workload, kind: NodeKind) -> _Refusal | None:
    """Why an empty node of this kind does not take the pod; None if it does."""
    beyond = tuple(beyond_the_node(kind.node, workload.pod))
    if beyond:
        return _Refusal(kind, "beyond the node", beyond, ())
    explained: Explanation = explain(kind.name, kind.node, workload.pod, totals=False)
    if explained.admitted:
        return None
    why: tuple[Words, ...] = tuple(cause.text for cause in explained.why) or (explained.message,)
    return _Refusal(kind, explained.reason, why, explained.changes)


def _never_fits(
    workload: Workload, source: SourceText, cluster: str, refusals: Sequence[_Refusal]
) -> Finding:
    kinds = [
        {"node": one.kind.name, "count": one.kind.number, "reason": one.reason, "why": list(one.why)}
        for one in refusals[:_MOST]
    ]
    changes = [
        (change.kind != "request", Message("remedy", {"change": change.text, "node": one.kind.name}))
        for one in refusals
        for change in one.changes
        if change.kind != "evict"
    ]
    # What the author of a manifest can do comes before what the administrator can.
    remedies: list[Message] = []
    for _, remedy in sorted(changes, key=lambda change: change[0]):
        if len(remedies) <= _MOST_REMEDIES and remedy not in remedies:
            remedies.append(remedy)
    facts: dict[str, Any] = {
        "cluster": cluster or None,
        "kinds": kinds,
        "story": Message("stories", {"kinds": kinds}),
        "remedy": remedies[0] if remedies else None,
        "others": Message("lines", {"lines": remedies[1:]}) if remedies[1:] else None,
    }
    evidence = [source.at(line, key="cpu") for line in _request_lines(workload)]
    return finding("never-fits", subject_of(workload), facts, evidence or [source.whole()])


def _request_lines(workload: Workload) -> list[int]:
    """Where the resources of the first containers stand."""
    paths = [f"{workload.spec_path}.containers[{index}].resources" for index in range(3)]
    lines = [workload.line_of(f"{path}.limits[cpu]", f"{path}.limits", path) for path in paths]
    return [line for line in lines if line]


# Memory that no single NUMA node can hold


def _wide_memory(workload: Workload, source: SourceText, kinds: Sequence[NodeKind]) -> Iterator[Finding]:
    """Told once per pod, for the first kind where it is so, if it is so on every kind that aligns memory."""
    strict = [
        kind
        for kind in kinds
        if kind.node.kubelet.memory
        and kind.node.kubelet.config.topology_policy in ("restricted", "single-numa-node")
    ]
    wide = [width for kind in strict if (width := _width(workload, kind))]
    if not wide or len(wide) < len(strict):
        return
    facts = wide[0]
    index = next(index for index, one in enumerate(workload.pod.containers) if one.name == facts["container"])
    path = f"{workload.spec_path}.containers[{index}].resources"
    resource = facts["resource"]
    line = workload.line_of(f"{path}.limits[{resource}]", f"{path}.requests[{resource}]", path)
    yield finding(
        "memory-needs-two-nodes",
        subject_of(workload),
        facts,
        [source.at(line, key=str(resource))],
        variant="spans" if facts["admitted"] else "refused",
        severity="warning" if facts["admitted"] else "error",
    )


def _width(workload: Workload, kind: NodeKind) -> dict[str, Any] | None:
    """The facts, if memory takes more NUMA nodes than the CPUs and devices of the same container or pod do."""
    node, layout = kind.node, kind.node.kubelet.layout
    merges: list[Merge] = []
    try:
        admitted = node.admit(workload.pod, merges.append).admitted
    except KubeletPanic:
        return None
    for merge in merges:
        for resource, hints in merge.memory.items():
            if hints is None or not hints.preferred:
                continue
            width = min(mask.bit_count() for mask in hints.preferred)
            others = [
                other
                for answer in (merge.cpu, merge.device)
                for other in answer.values()
                if other is not None and any(mask.bit_count() < width for mask in other.preferred)
            ]
            if width > 1 and others:
                container = merge.container
                if container is None:
                    sizes = {one.name: amount(one.requests, resource) for one in workload.pod.containers}
                    container = max(sizes, key=sizes.__getitem__)
                if container not in {one.name for one in workload.pod.containers}:
                    continue
                wanted = demand(workload.pod).containers
                asked = sum(dict(one.memory).get(resource, 0) for one in wanted if one.name == container)
                most = max((part.counted for part in account(node, resource)), default=0)
                return {
                    "container": container,
                    "resource": resource,
                    "requested": asked,
                    "most": most,
                    "asked": Message("amount", {"amount": (resource, asked)}),
                    "memoryNodes": list(layout.node_ids(hints.preferred[0])),
                    "cpuNodes": [list(layout.node_ids(mask)) for mask in others[0].preferred[:4]],
                    "policy": node.kubelet.config.topology_policy,
                    "admitted": admitted,
                    "node": kind.name,
                }
    return None


# Devices that no hint is given for


def _devices_without_topology(
    workload: Workload, source: SourceText, kinds: Sequence[NodeKind]
) -> Iterator[Finding]:
    """Kinds of nodes whose device plugin does not say where its devices are, so that nothing is aligned with them."""
    asked = {name for name, _ in demand(workload.pod).devices if not is_memory(name) and name != "cpu"}
    for name in sorted(asked):
        blind = [
            kind
            for kind in kinds
            if len(kind.node.kubelet.layout.ids) > 1
            and kind.node.kubelet.policy is not None
            and any(
                resource.name == name
                and resource.devices
                and not any(device.numa for device in resource.devices)
                for resource in kind.node.kubelet.hardware.resources
            )
        ]
        if blind:
            facts = {"resource": name, "nodes": [kind.name for kind in blind[:_MOST]]}
            ends = f".resources.limits[{name}]"
            line = next((line for path, line in workload.lines if path.endswith(ends)), 0)
            evidence = [source.at(line, key=name) if line else source.whole()]
            yield finding("devices-without-topology", subject_of(workload), facts, evidence)
