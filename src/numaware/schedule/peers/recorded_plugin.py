"""Recorded calls of scheduler-plugins: read one, answer it, and say whether the plugin answered the same.

The format is described in tests/vectors/scheduler-plugins/README.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from numaware.machine import node_topology
from numaware.machine.node_topology import NodeTopology
from numaware.machine.quantity import Quantity
from numaware.schedule.peers.filtering import Overdraw, filter_node, overdraw_text
from numaware.schedule.peers.nrt import numa_zones, quantity, read
from numaware.schedule.peers.over_reserve import assume
from numaware.schedule.peers.recorded_pod import Amounts, RecordedPod, amounts, pod
from numaware.schedule.peers.score import STRATEGIES, Strategy, score_node


class _Weight(msgspec.Struct, frozen=True):
    name: str
    weight: int = 0


class _Strategy(msgspec.Struct, frozen=True):
    type: str
    resources: tuple[_Weight, ...] | None = None


class _Node(msgspec.Struct, frozen=True):
    allocatable: Amounts


class PluginCase(msgspec.Struct, frozen=True):
    """One call of Filter, or of Score where there is a strategy, and what came of it."""

    id: str
    pod: RecordedPod
    node: _Node
    nrt: dict[str, Any] | None = None
    stale: bool = False
    assumed: tuple[RecordedPod, ...] = ()
    strategy: _Strategy | None = None
    expect: dict[str, Any] | None = None


def answer(case: PluginCase) -> dict[str, Any]:
    """What the rule says, in the shape of a recorded result."""
    asking = pod(case.pod)
    published = None if case.nrt is None else node_topology.read(case.nrt).sound()
    topology = None if published is None else assume(read(published), map(pod, case.assumed))
    if case.strategy is not None:
        strategy = _strategy(case.strategy)
        if strategy is None:
            named = json.dumps(case.strategy.type, ensure_ascii=False)
            return {"error": f"scoringStrategy.type: Invalid value: {named}: invalid ScoringStrategyType"}
        return {"score": score_node(topology, asking, strategy, fresh=not case.stale)}
    reported = frozenset(name for name, _ in amounts(case.node.allocatable))
    status = filter_node(topology, reported, asking, fresh=not case.stale)
    if not status.reasons:
        return {"code": status.code}
    reasons = list(status.reasons)
    if status.overdraw is not None:
        reasons[-1] = _as_written(case, published, status.overdraw)
    return {"code": status.code, "reasons": reasons}


def agrees(case: PluginCase, ours: Mapping[str, Any]) -> bool:
    """Whether the answer is one that the plugin gave, or the plugin gave none because it crashed."""
    expect = case.expect or {}
    right = [expect, *expect.get("outcomes", ())]
    if any("panic" in one for one in right):
        return True
    slack = 1 if expect.get("order_sensitive") else 0
    return any(_same(one, ours, slack) for one in right)


def _same(recorded: Mapping[str, Any], ours: Mapping[str, Any], slack: int) -> bool:
    score, mine = recorded.get("score"), ours.get("score")
    close = score == mine or (score is not None and mine is not None and abs(score - mine) <= slack)
    return (
        close
        and all(recorded.get(key) == ours.get(key) for key in ("code", "error"))
        and recorded.get("reasons", []) == ours.get("reasons", [])
    )


def _strategy(recorded: _Strategy) -> Strategy | None:
    for known in STRATEGIES:
        if known == recorded.type:
            return Strategy(known, tuple((entry.name, entry.weight) for entry in recorded.resources or ()))
    return None


def _as_written(case: PluginCase, published: NodeTopology | None, overdraw: Overdraw) -> str:
    """The plugin prints amounts with the suffixes of whoever wrote them, which the rule itself has no use for."""
    requests = case.pod.spec.containers[overdraw.container].resources.requests or {}
    zones = numa_zones(published) if published else []
    available = {entry.name: entry.available for entry in zones[overdraw.position][1].resources}

    def written(nano: int, texts: Amounts) -> Quantity:
        return Quantity(nano, quantity(texts[overdraw.resource]).family)

    return overdraw_text(
        overdraw, written(overdraw.requested, requests), written(overdraw.available, available)
    )
