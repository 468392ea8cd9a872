"""A prediction that failed, as a file anybody can replay: the node, its pods, the pod, and what really happened.

The scenario is in the format of recorded kubelet sessions (`numaware twin replay` plays it). Pods that have left in the
meantime are not in it, so what the managers of the node held goes along, and `exact` says whether the scenario alone leads
to the same prediction.

A pod that is being deleted holds its part of the node until its kubelet lets go of it, and the API server tells of that later
than the kubelet acts on it. Whoever came in between got what nobody could know to be free: such a miss is explained by the pods
that had gone (`departed`), if without some of them the twin says what the kubelet did.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain, combinations, islice
from typing import Any, NamedTuple

import msgspec

from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.schedule.ledger import Observation, Placement, Prediction, compare, placement_of, predict
from numaware.twin.errors import KubeletPanic, StartError
from numaware.twin.node import Node
from numaware.twin.node_codec import EncodedState
from numaware.twin.recording import replay
from numaware.twin.scenario import Scenario, arranged
from numaware.workload.pod import Pod

# Sets of departed pods that are tried, small ones first.
_MOST_TRIALS = 500


class _Outcome(msgspec.Struct, omit_defaults=True):
    """What a kubelet did or was to do with the pod."""

    admitted: bool
    reason: str = ""
    placement: Placement | None = None

    @classmethod
    def of(cls, placement: Placement | None, reason: str) -> _Outcome:
        if placement is None:
            return cls(admitted=False, reason=reason)
        return cls(admitted=True, placement=placement)

    @property
    def observation(self) -> Observation:
        return Observation(self.placement if self.admitted else None, self.reason)


class _Miss(msgspec.Struct):
    """The file. The last pod of the scenario is the one that came; those before it are on the node.

    `departed` are those of them that had gone, or were being deleted, when the outcome was seen; None in older files, where any
    may have.
    """

    scenario: Scenario
    outcome: str
    predicted: _Outcome
    observed: _Outcome
    state: EncodedState
    exact: bool = False
    departed: tuple[str, ...] | None = None


def bundle(
    before: Node, pod: Pod, prediction: Prediction, observed: Observation, departed: Collection[str] = ()
) -> dict[str, Any]:
    """All that is needed to look into a miss; `before` is the node as it was believed to be when the pod came."""
    scenario = Scenario.of(f"{prediction.node}/{prediction.pod}", before, [*before.state.pods.values(), pod])
    miss = _Miss(
        scenario,
        compare(prediction, observed),
        _Outcome.of(prediction.placement, prediction.reason),
        _Outcome.of(observed.placement, observed.reason),
        EncodedState.of(before.state),
        _leads_to(scenario, before, pod),
        tuple(sorted(departed)),
    )
    built: dict[str, Any] = msgspec.to_builtins(miss)
    return built


class KeptMiss(NamedTuple):
    """A miss as it was kept: the node before the pod came, the pod, what was predicted and what was seen."""

    id: str
    outcome: str
    before: Node
    pod: Pod
    predicted: Observation
    observed: Observation
    departed: tuple[str, ...]


def kept_miss(data: bytes, source: str) -> KeptMiss:
    """Read the file of a miss; `InputError` for what is none."""
    try:
        miss = msgspec.json.decode(data, type=_Miss)
        fresh, (*others, pod) = arranged(miss.scenario)
        miss.state.check(fresh.kubelet)
    except (msgspec.MsgspecError, ValueError, StartError, RecursionError) as error:
        raise InputError(source, f"not a kept miss: {printable(str(error), 300)}") from None
    state = miss.state.state({other.uid: other for other in others})
    return KeptMiss(
        miss.scenario.id,
        miss.outcome,
        Node(fresh.kubelet, state),
        pod,
        miss.predicted.observation,
        miss.observed.observation,
        tuple(sorted(state.pods)) if miss.departed is None else miss.departed,
    )


class Again(msgspec.Struct, frozen=True):
    """A miss looked into again: what was predicted, what happened, what the twin says now, and how the two compare.

    `without` names the pods that must have gone for the twin to say what happened; none where it says so anyway.
    """

    id: str
    outcome: str
    predicted: Observation
    observed: Observation
    now: Observation
    explained: bool
    without: tuple[str, ...] = ()


def again(data: bytes, source: str) -> Again:
    """Ask the twin of today what became of a kept miss; `InputError` for what is none."""
    miss = kept_miss(data, source)
    now, explained = _said_by(miss.before, miss)
    without: tuple[str, ...] = ()
    if not explained:
        without = next(_departures_that_explain(miss), ())
    names = tuple(f"{one.namespace}/{one.name}" for one in map(miss.before.state.pods.__getitem__, without))
    return Again(miss.id, miss.outcome, miss.predicted, miss.observed, now, explained or bool(without), names)


def _said_by(node: Node, miss: KeptMiss) -> tuple[Observation, bool]:
    """What the twin says to the pod on this node, and whether that is what happened."""
    try:
        prediction = predict(miss.id, miss.pod, node.admit(miss.pod))
    except KubeletPanic as crash:
        return Observation(None, str(crash)), False
    said = Observation(prediction.placement, prediction.reason)
    return said, compare(prediction, miss.observed) == "match" and said.reason == miss.observed.reason


def _departures_that_explain(miss: KeptMiss) -> Iterator[tuple[str, ...]]:
    """Sets of pods, the smallest first, without which the twin says what happened."""
    known = [uid for uid in miss.departed if uid in miss.before.state.pods]
    sets = chain.from_iterable(combinations(known, size) for size in range(1, len(known) + 1))
    for gone in islice(sets, _MOST_TRIALS):
        if _said_by(miss.before.release(*gone), miss)[1]:
            yield gone


def _leads_to(scenario: Scenario, before: Node, pod: Pod) -> bool:
    """Whether playing the scenario gives the pod what it would get on the node as it really was."""
    replayed = replay(scenario)
    last = replayed["events"][-1] if replayed["events"] else {}
    if last.get("uid") != pod.uid:
        return False
    try:
        verdict = before.admit(pod)
    except KubeletPanic:
        return "panic" in last
    if not verdict.admitted:
        return bool(last.get("admitted") is False and last["message"] == verdict.message)
    placed = placement_of(verdict.node, pod).containers
    containers = {container["name"]: container for container in last.get("containers", ())}
    return last.get("admitted") is True and all(
        (containers[part.name]["cpuset"] or "") == part.cpus
        and [
            (tuple(block["numaAffinity"]), block["type"], block["size"])
            for block in containers[part.name]["memory"]
        ]
        == list(part.memory)
        for part in placed
    )
