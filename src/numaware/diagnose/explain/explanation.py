"""One pod on one node, explained: the verdict, where everything would go, why not, and what would help."""

from __future__ import annotations

from typing import Any

import msgspec

from numaware.diagnose.explain.causes import Cause, causes
from numaware.diagnose.explain.caveats import caveats
from numaware.diagnose.explain.change import Change, admits
from numaware.diagnose.explain.counterfactual import changes
from numaware.diagnose.finding import Message
from numaware.diagnose.texts import Lang, Words, say
from numaware.machine.cpuset import CpuSet
from numaware.twin.account import held_by
from numaware.twin.errors import KubeletPanic
from numaware.twin.files import devices_by_node
from numaware.twin.memory.static import Block
from numaware.twin.node import Merge, Node, NodeState, Verdict
from numaware.twin.topology.hints import Hint
from numaware.workload.pod import Pod


class ContainerPlacement(msgspec.Struct, frozen=True):
    """What one container gets: its own CPUs (None: the shared pool), memory blocks, devices per NUMA node."""

    container: str
    cpus: CpuSet | None
    memory: tuple[Block, ...]
    devices: dict[str, dict[int, int]]
    hint: Hint | None


class Explanation(msgspec.Struct, frozen=True):
    """The whole answer. `node` is the node before the pod came, `after` what it is afterwards, `merges` the evidence.

    `admitted_when_empty` tells a node that is too full from one that is too small, or too strict, for the pod.
    """

    name: str
    pod: Pod
    node: Node
    after: Node
    admitted: bool
    admitted_when_empty: bool
    reason: str
    message: Words
    merges: tuple[Merge, ...]
    placements: tuple[ContainerPlacement, ...]
    why: tuple[Cause, ...]
    changes: tuple[Change, ...]
    warnings: tuple[Message, ...]


def explain(name: str, node: Node, pod: Pod) -> Explanation:
    """Ask the twin about a pod on the node called `name`: the answer and all that there is to say about it."""
    merges: list[Merge] = []
    crashed = None
    try:
        verdict = node.admit(pod, merges.append)
    except KubeletPanic as crash:
        verdict = Verdict(False, "KubeletPanic", str(crash), node, node.state)
        crashed = Message("crash", {"panic": verdict.message})
    refused = not verdict.admitted
    return Explanation(
        name=name,
        pod=pod,
        node=node,
        after=verdict.node,
        admitted=verdict.admitted,
        admitted_when_empty=admits(Node.fresh(node.kubelet.hardware, node.kubelet.config), pod),
        reason=verdict.reason,
        message=crashed or verdict.message,
        merges=tuple(merges),
        placements=_placements(node, pod, verdict.held, merges),
        why=causes(node, pod, verdict, merges) if refused else (),
        changes=changes(node, pod, verdict) if refused else (),
        warnings=tuple(caveats(node, pod, merges, admitted=verdict.admitted)),
    )


def _placements(
    node: Node, pod: Pod, state: NodeState, merges: list[Merge]
) -> tuple[ContainerPlacement, ...]:
    hints = {merge.container: merge.best for merge in merges}
    held = {container.name: held_by(state, pod.uid, (container.name,)) for container in pod.in_order}
    return tuple(
        ContainerPlacement(
            container=name,
            cpus=CpuSet.from_mask(mine.cpus) if mine.cpus else None,
            memory=mine.memory,
            devices={
                resource: {
                    numa: len(ids) for numa, ids in devices_by_node(node.kubelet, resource, mask).items()
                }
                for resource, mask in mine.devices.items()
            },
            hint=hints.get(name, hints.get(None)),
        )
        for name, mine in held.items()
    )


def to_builtins(explanation: Explanation, spec_path: str = "spec", lang: Lang = "en") -> dict[str, Any]:
    """The documented JSON shape; `spec_path` is where the pod spec stands in the user's document."""
    layout = explanation.node.kubelet.layout

    def hint(found: Hint | None) -> dict[str, Any] | None:
        if found is None:
            return None
        mask = None if found.mask is None else list(layout.node_ids(found.mask))
        return {"mask": mask, "preferred": found.preferred}

    return {
        "pod": {"namespace": explanation.pod.namespace, "name": explanation.pod.name},
        "node": explanation.name,
        "admitted": explanation.admitted,
        "admittedWhenEmpty": explanation.admitted_when_empty,
        "reason": explanation.reason,
        "message": say(explanation.message, lang),
        "containers": [
            {
                "name": placed.container,
                "cpuset": None if placed.cpus is None else str(placed.cpus),
                "memory": [
                    {
                        "numaAffinity": list(layout.node_ids(block.nodes)),
                        "type": block.kind,
                        "size": block.size,
                    }
                    for block in placed.memory
                ],
                "devices": {
                    resource: {str(numa): count for numa, count in counts.items()}
                    for resource, counts in placed.devices.items()
                },
                "hint": hint(placed.hint),
            }
            for placed in explanation.placements
        ],
        "why": [
            {
                "resource": cause.resource,
                "wants": [list(nodes) for nodes in cause.wants],
                "blockedBy": [say(one, lang) for one in cause.blocked_by],
                "text": say(cause.text, lang),
            }
            for cause in explanation.why
        ],
        "changes": [
            {"kind": change.kind, "text": say(change.text, lang), "patch": _nested(change, spec_path)}
            for change in explanation.changes
        ],
        "warnings": [say(one, lang) for one in explanation.warnings],
    }


def _nested(change: Change, spec_path: str) -> Any:
    """A request patch as one of the user's own document; inside a list (Volcano's tasks) it stays one of the pod."""
    patch: Any = change.patch
    if change.kind == "request":
        for part in reversed(("spec" if "[" in spec_path else spec_path).split(".")):
            patch = {part: patch}
    return patch
