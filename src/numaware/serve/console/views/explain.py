"""One pod on one node: the engine's answer, and the kubelet's evidence for it in the form the page draws.

Whether the node takes the pod is what `Engine.ask` says (`judging.py`), here as everywhere. The twin is asked for the hints,
causes and changes behind that; where something else than the kubelet keeps the pod off, they show what the kubelet would do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from heapq import nsmallest
from itertools import islice
from typing import Any, Literal, TypedDict, cast

import msgspec

from numaware.diagnose.explain.causes import requested_by
from numaware.diagnose.explain.change import Change
from numaware.diagnose.explain.change import Kind as ChangeKind
from numaware.diagnose.explain.explanation import UNSCHEDULABLE, explain, to_builtins
from numaware.diagnose.explain.explanation import Explanation as Evidence
from numaware.diagnose.explain.served_by_dra import State as DraState
from numaware.diagnose.explain.served_by_dra import dra_parts
from numaware.diagnose.texts import Lang
from numaware.machine.cpuset import iter_bits, list_form
from numaware.machine.quantity import Quantity
from numaware.serve.console.views.judging import Judgement, Verdict
from numaware.serve.console.views.node import held_on
from numaware.serve.console.views.whatif import reasons_in_words, reasons_of
from numaware.twin.account import account, free_cpus, free_devices, held_by
from numaware.twin.node import Merge, Node
from numaware.twin.topology.hints import Hints
from numaware.workload.demand import Demand
from numaware.workload.dra.known import DraObjects
from numaware.workload.pod import NANO, Pod

State = Literal["preferred", "possible", "impossible"]
Outcome = Literal["chosen", "agreed", "beaten", "dropped", "empty"]

# Sets of NUMA nodes that a picture can show side by side.
_MOST_MASKS = 5


class Cell(msgspec.Struct, frozen=True, rename="camel"):
    """What a resource says to one set of NUMA nodes, what is free to pin there, and what is missing."""

    state: State
    free_to_pin: int
    short: int


class Row(msgspec.Struct, frozen=True, rename="camel"):
    """One resource that has a say."""

    resource: str
    wanted: int
    cells: tuple[Cell, ...]


class MergeView(msgspec.Struct, frozen=True, rename="camel"):
    """One merge: resources by sets of NUMA nodes, and what came out. `container` is empty for a whole pod."""

    container: str
    policy: str
    masks: tuple[tuple[int, ...], ...]
    all_masks: int
    rows: tuple[Row, ...]
    merged: tuple[Outcome, ...]
    best: tuple[int, ...] | None
    preferred: bool
    admitted: bool


class Place(msgspec.Struct, frozen=True, rename="camel"):
    """What the pod would have of one NUMA node: CPUs, bytes, devices. Of a pod that is not admitted it is what that NUMA
    node alone could give, and `alone` the amounts of that by resource.
    """

    numa: int
    cpus: str
    memory: int
    devices: tuple[str, ...]
    alone: dict[str, int]


class Cause(TypedDict):
    """What stands in the way, told by one resource."""

    resource: str
    wants: list[list[int]]
    blockedBy: list[str]
    text: str


class Remedy(TypedDict):
    """A change that would have it admitted; `patch` is JSON."""

    kind: ChangeKind
    text: str
    patch: Any


class ByDra(TypedDict):
    """One thing that the pod has by DRA, and in words that no kubelet aligns it."""

    claim: str
    resources: list[str]
    state: DraState
    devices: list[dict[str, Any]]
    aligned: bool | None
    text: str


class Explanation(TypedDict):
    """One entry of `numaware explain --json`."""

    pod: dict[str, str]
    node: str
    admitted: bool
    admittedWhenEmpty: bool
    reason: str
    message: str
    containers: list[dict[str, Any]]
    why: list[Cause]
    changes: list[Remedy]
    dra: list[ByDra]
    warnings: list[str]


class Attempt(msgspec.Struct, frozen=True, rename="camel"):
    """The question that would be asked with a change made: policies, and amounts of the pod (CPUs in thousandths)."""

    policy: str | None
    scope: str | None
    amounts: dict[str, int]


class Explained(msgspec.Struct, frozen=True, rename="camel"):
    """The answer, and `why` it is no in words. `deciding` is the place of the merge that decided, None where nothing was.

    `attempts` has one for every change of the explanation, None for what cannot be asked about.
    """

    node: str
    verdict: Verdict
    why: str
    policy: str
    scope: str
    explanation: Explanation
    merges: tuple[MergeView, ...]
    deciding: int | None
    places: tuple[Place, ...]
    attempts: tuple[Attempt | None, ...]


def evidence_of(name: str, node: Node, pod: Pod) -> Evidence:
    """What the node's kubelet says; a pod that is on the node already is asked about as if it came anew."""
    node = node.release(pod.uid) if pod.uid in node.state.pods else node
    return explain(name, node, pod, totals=False)


def with_dra(evidence: Evidence, dra: DraObjects, served: tuple[str, ...]) -> Evidence:
    """The same with what the pod has by DRA, of which there may be news at any time."""
    parts = dra_parts(evidence.name, evidence.node, evidence.after, evidence.pod, dra, served)
    return msgspec.structs.replace(evidence, dra=tuple(parts))


def explained(
    explanation: Evidence, judged: Judgement, spec_path: str = "spec", lang: Lang = "en"
) -> Explained:
    """The node's answer with its evidence, whose changes the engine was asked about."""
    name, node, pod = explanation.name, explanation.node, explanation.pod
    document = to_builtins(explanation, spec_path, lang)
    why = reasons_in_words(reasons_of(judged, lang), lang)
    if judged.reasons and explanation.admitted:
        document |= {"admitted": False, "reason": UNSCHEDULABLE, "message": why}
    wanted = node.kubelet.demand(pod)
    merges = explanation.merges
    refusing = next((place for place, merge in enumerate(merges) if not merge.admitted), len(merges) - 1)
    config = node.kubelet.config
    return Explained(
        node=name,
        verdict=judged.verdict,
        why=why,
        policy=config.topology_policy,
        scope=config.topology_scope,
        explanation=cast("Explanation", document),
        merges=tuple(_merge(node, wanted, merge) for merge in merges),
        deciding=refusing if merges else None,
        places=tuple(
            _alone(node, requested_by(wanted, ""), position)
            if judged.reasons
            else _placed(explanation.after, pod, position)
            for position in range(len(node.kubelet.layout.ids))
        ),
        attempts=tuple(map(_attempt, explanation.changes)),
    )


def _attempt(change: Change) -> Attempt | None:
    """The question with the change made; None where the amounts are those of one of several containers."""
    if len(change.pod.in_order) > 1 and change.kind == "request":
        return None
    policy = change.patch.get("topologyManagerPolicy")
    scope = change.patch.get("topologyManagerScope")
    amounts: dict[str, int] = {}
    for container in change.patch.get("containers", ()):
        resources = container["resources"]
        for name, text in (resources.get("limits") or resources["requests"]).items():
            nano = Quantity.parse(str(text)).nano
            amounts[name] = -(-nano * 1000 // NANO) if name == "cpu" else -(-nano // NANO)
    return Attempt(policy, scope, amounts) if policy or scope or amounts else None


def _placed(after: Node, pod: Pod, position: int) -> Place:
    """What an admitted pod has of a NUMA node."""
    held = held_on(after, position, "", held_by(after.state, pod.uid))
    return Place(after.kubelet.layout.ids[position], held.cpus, held.size, held.devices, {})


def _alone(node: Node, wanted: Mapping[str, int], position: int) -> Place:
    """What a NUMA node has free of each resource that a refused pod wants, where that is enough."""
    layout = node.kubelet.layout
    alone = {
        resource: amount
        for resource, amount in sorted(wanted.items())
        if amount and (parts := account(node, resource)) and parts[position].free >= amount
    }
    cpus = islice(iter_bits(free_cpus(node) & layout.node_cpus[position]), alone.get("cpu", 0))
    devices = [
        device
        for resource, inventory in node.kubelet.devices.inventories.items()
        for device in inventory.names(free_devices(node, resource) & inventory.on_node[position])[
            : alone.get(resource, 0)
        ]
    ]
    mask = sum(1 << cpu for cpu in cpus)
    return Place(layout.ids[position], list_form(mask), alone.get("memory", 0), tuple(devices), alone)


def _merge(node: Node, demanded: Demand, merge: Merge) -> MergeView:
    layout, policy = node.kubelet.layout, node.kubelet.config.topology_policy
    wanted = requested_by(demanded, merge.container or "")
    answers = {
        resource: hints
        for answer in (merge.cpu, merge.memory, merge.device)
        for resource, hints in sorted(answer.items())
        if hints is not None
    }
    shown = _shown(answers, layout.full, merge.best.mask)
    best = merge.best.mask if merge.best.mask is not None else layout.full if merge.admitted else None
    rows = []
    for resource, hints in answers.items():
        free = {part.numa: part.free for part in account(node, resource)}
        cells = []
        for mask in shown:
            here = sum(free.get(numa, 0) for numa in layout.node_ids(mask))
            amount = wanted.get(resource, 0)
            state: State = (
                "preferred"
                if mask in hints.preferred
                else "possible"
                if mask in hints.masks
                else "impossible"
            )
            cells.append(Cell(state, here, max(0, amount - here)))
        rows.append(Row(resource, wanted.get(resource, 0), tuple(cells)))
    return MergeView(
        container=merge.container or "",
        policy=policy,
        masks=tuple(layout.node_ids(mask) for mask in shown),
        all_masks=layout.full,
        rows=tuple(rows),
        merged=tuple(_outcome(mask, answers, policy, best if merge.admitted else None) for mask in shown),
        best=None if best is None else layout.node_ids(best),
        preferred=merge.best.preferred,
        admitted=merge.admitted,
    )


def _shown(answers: dict[str, Hints], full: int, best: int | None) -> list[int]:
    """All sets of a small machine; of a large one those that most resources like, the winner and the whole."""
    masks = list(range(1, full + 1)) if full < 1 << 12 else [1 << place for place in range(full.bit_length())]
    if len(masks) > _MOST_MASKS + 2:
        preferred = Counter(mask for hints in answers.values() for mask in hints.preferred)
        possible = Counter(mask for hints in answers.values() for mask in hints.masks)
        masks = nsmallest(
            _MOST_MASKS,
            masks,
            key=lambda mask: (
                mask not in (full, best),
                -preferred[mask],
                mask.bit_count(),
                -possible[mask],
                mask,
            ),
        )
    return sorted(masks, key=lambda mask: (mask.bit_count(), mask))


def _outcome(mask: int, answers: dict[str, Hints], policy: str, best: int | None) -> Outcome:
    if mask == best:
        return "chosen"
    if policy == "single-numa-node" and mask & (mask - 1):
        return "dropped"
    if all(mask in hints.preferred for hints in answers.values()):
        return "agreed"
    if all(mask in hints.masks for hints in answers.values()):
        return "beaten"
    return "empty"
