"""What an upgrade of a node's kubelet changes: whether it starts, its options, gates, files and rules, and who it would refuse.

The twin is the kubelet of both releases, so the answer is worked out and not looked up: the configuration is given to the new
one, the state files that the old one has written are read by it, and every running pod is admitted anew.
`numaware config upgrade-check` asks here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from numaware.sentence import Sentence
from numaware.twin.config import KubeletConfig, Options
from numaware.twin.errors import KubeletPanic, StartError
from numaware.twin.gates import GATES
from numaware.twin.node import Node
from numaware.twin.options import CPU_STAGES, TOPOLOGY_STAGES, Stages, stage
from numaware.twin.readmission import lost_at_restart
from numaware.twin.rules import RULES, Rules, rules_for
from numaware.twin.validation import gate_problems

Area = Literal["start", "pod", "option", "gate", "file", "rule"]


class Change(msgspec.Struct, frozen=True):
    """One thing that is not as before; `breaks` where the kubelet would not start or a pod would be lost."""

    area: Area
    subject: str
    text: Sentence
    breaks: bool = False


def upgrade_changes(node: Node, version: str) -> tuple[Change, ...]:
    """All that changes for this node when a kubelet of release `version` takes its place, the worst first."""
    config = node.kubelet.config
    before, after = rules_for(config.version), rules_for(version)
    found = [
        *_start(node, version, after.minor),
        *_options(config.cpu_options, CPU_STAGES, before.minor, after.minor),
        *_options(config.topology_options, TOPOLOGY_STAGES, before.minor, after.minor),
        *_gates(config, before.minor, after.minor),
        *_files(node, before, after),
        *_rules(before, after),
    ]
    return tuple(sorted(found, key=lambda change: not change.breaks))


def _start(node: Node, version: str, minor: int) -> Iterator[Change]:
    gates = tuple(gate_problems(node.kubelet.config.feature_gates, minor))
    for problem in gates:
        yield Change("start", "featureGates", _stops(problem.text), breaks=True)
    if gates:
        return
    try:
        lost = lost_at_restart(node, version)
    except StartError as error:
        yield Change("start", error.stage, _stops(error.message), breaks=True)
        return
    except (KubeletPanic, ValueError) as error:
        yield Change("start", "kubelet", _stops(str(error)), breaks=True)
        return
    for pod in lost:
        text = Sentence(
            "would be refused when the kubelet starts: {reason}: {message}",
            reason=pod.reason,
            message=pod.message,
        )
        yield Change("pod", f"{pod.namespace}/{pod.name}", text, breaks=True)


def _stops(said: Sentence | str) -> Sentence:
    return Sentence("the kubelet would not start: {said}", said=said)


def _options(options: Options, stages: Stages, before: int, after: int) -> Iterator[Change]:
    for name, _ in options:
        old, new = stage(stages, name, before), stage(stages, name, after)
        if old != new:
            text = Sentence("was {old}, is {new}", old=old or "unknown", new=new or "unknown")
            yield Change("option", name, text)


def _gates(config: KubeletConfig, before: int, after: int) -> Iterator[Change]:
    """Gates whose place in life changes, whether they are set or not: their default decides."""
    named = dict(config.feature_gates)
    for name, gate in GATES.items():
        old, new = gate.at(before), gate.at(after)
        if old == new or (new is None and name not in named):
            continue
        if new is None:
            yield Change("gate", name, Sentence("is gone: take it out of the configuration"))
        elif old is None:
            text = Sentence("is new: {stage}, {default}", stage=new[0], default=_state(new[1]))
            yield Change("gate", name, text)
        else:
            text = Sentence(
                "was {old}, {before}; is {new}, {after}",
                old=old[0],
                before=_state(old[1]),
                new=new[0],
                after=_state(new[1]),
            )
            yield Change("gate", name, text)


def _state(on: bool) -> Sentence:
    return Sentence("on by default") if on else Sentence("off by default")


def _files(node: Node, before: Rules, after: Rules) -> Iterator[Change]:
    if before.wrapped_files == after.wrapped_files:
        return
    text = (
        Sentence("is written with its content twice; older kubelets still read it")
        if after.wrapped_files
        else Sentence("is written without the second copy of its content again")
    )
    yield Change("file", "cpu_manager_state", text)
    if after.memory_manager and node.kubelet.rules.memory_manager:
        yield Change("file", "memory_manager_state", text)


def _rules(before: Rules, after: Rules) -> Iterator[Change]:
    for name, rule in RULES.items():
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            says = Sentence(rule.says)
            text = (
                Sentence("from now on: {says}", says=says)
                if new
                else Sentence("no longer: {says}", says=says)
            )
            yield Change("rule", name, text)
