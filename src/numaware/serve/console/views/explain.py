"""One pod on one node: the kubelet's answer with all its evidence, in the form the page draws."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal

import msgspec

from numaware.diagnose.explain.causes import requested_by
from numaware.diagnose.explain.explanation import explain, to_builtins
from numaware.diagnose.texts import Lang
from numaware.serve.console.views.node import device_ids
from numaware.twin.account import account, held_by
from numaware.twin.node import Merge, Node
from numaware.twin.topology.hints import Hints
from numaware.workload.demand import Demand, demand
from numaware.workload.pod import Pod

State = Literal["preferred", "possible", "impossible"]
Outcome = Literal["chosen", "agreed", "beaten", "dropped", "empty"]

# Sets of NUMA nodes that a picture can show side by side.
_MOST_MASKS = 5
# Answers kept for those who look at the same: a node is a value, so what it says does not change.
_MOST_ANSWERS = 128


class Cell(msgspec.Struct, frozen=True, rename="camel"):
    """What a resource says to one set of NUMA nodes, what is free there, and what is missing."""

    state: State
    free: int
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


class ZoneFit(msgspec.Struct, frozen=True, rename="camel"):
    """A resource of the pod on one NUMA node: what is free there, and whether that alone would do."""

    resource: str
    numa: int
    wanted: int
    free: int
    fits: bool


class Explained(msgspec.Struct, frozen=True, rename="camel"):
    """The answer. `explanation` is exactly one entry of `numaware explain --json`."""

    node: str
    policy: str
    scope: str
    explanation: dict[str, Any]
    merges: tuple[MergeView, ...]
    fits: tuple[ZoneFit, ...]
    # CPUs and devices that the pod would hold, to be drawn as a ghost.
    devices: dict[str, tuple[str, ...]]


@lru_cache(maxsize=_MOST_ANSWERS)
def explained(name: str, node: Node, pod: Pod, spec_path: str = "spec", lang: Lang = "en") -> Explained:
    """Ask the twin; a pod that is on the node already is asked about as if it came anew."""
    node = node.release(pod.uid) if pod.uid in node.state.pods else node
    explanation = explain(name, node, pod)
    wanted = demand(pod, sidecars=node.kubelet.rules.sidecars)
    config = node.kubelet.config
    return Explained(
        node=name,
        policy=config.topology_policy,
        scope=config.topology_scope,
        explanation=to_builtins(explanation, spec_path, lang),
        merges=tuple(_merge(node, wanted, merge) for merge in explanation.merges),
        fits=tuple(_fits(node, wanted)),
        devices=device_ids(node, held_by(explanation.after.state, pod.uid)) if explanation.admitted else {},
    )


def _fits(node: Node, wanted: Demand) -> Iterator[ZoneFit]:
    for resource, amount in sorted(requested_by(wanted, "").items()):
        for part in account(node, resource) if amount else ():
            yield ZoneFit(resource, part.numa, amount, part.free, part.free >= amount)


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
        always = {full, *([best] if best else [])}

        def liked(mask: int) -> tuple[bool, int, int, int]:
            preferred = sum(mask in hints.preferred for hints in answers.values())
            possible = sum(mask in hints.masks for hints in answers.values())
            return mask not in always, -preferred, mask.bit_count(), -possible

        masks = sorted(masks, key=lambda mask: (*liked(mask), mask))[:_MOST_MASKS]
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
