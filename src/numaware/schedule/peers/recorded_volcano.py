"""Recorded scheduling cycles of Volcano: read one, answer it, and say whether Volcano answered the same.

The format is described in tests/vectors/volcano/README.md.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from numaware.machine.cpuset import MAX_ID, CpuSet, list_form
from numaware.machine.node_topology import Amount
from numaware.schedule.peers.nrt import quantity
from numaware.schedule.peers.recorded_pod import RecordedPod, pod
from numaware.schedule.peers.volcano import Fit, NumaInfo, Task, bind, predicate, scores
from numaware.schedule.peers.volcano_cpus import Cpu

_Id = Annotated[int, msgspec.Meta(ge=0, le=MAX_ID)]
_Numa = Annotated[int, msgspec.Meta(ge=0, le=63)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
# The largest machine that a Linux kernel can be built for.
_Cpus = Annotated[tuple[tuple[_Id, _Numa, _Number, _Number], ...], msgspec.Meta(max_length=8192)]


class _Info(msgspec.Struct, frozen=True, rename="camel"):
    cpus: _Cpus = ()
    cpu_manager_policy: str = ""
    topology_manager_policy: str = ""
    allocatable: str | None = None
    reserved: Amount | None = None


class _Node(msgspec.Struct, frozen=True):
    name: str
    numa: _Info | None = None


class _Task(msgspec.Struct, frozen=True):
    pod: RecordedPod
    policy: str = ""


class VolcanoCase(msgspec.Struct, frozen=True):
    """One cycle: tasks that come to a few nodes one after another, and what became of each."""

    id: str
    nodes: tuple[_Node, ...]
    tasks: tuple[_Task, ...]
    weight: int = 1
    expect: list[dict[str, Any]] | None = None
    outcomes: list[list[dict[str, Any]]] = []


def answer(case: VolcanoCase) -> list[dict[str, Any]]:
    """What the rule says, in the shape of a recorded result; each task goes to the best node for the next to see."""
    nodes = {node.name: None if node.numa is None else _info(node.numa) for node in case.nodes}
    if len(nodes) < len(case.nodes):
        raise ValueError("a node is listed twice")
    results = []
    for recorded in case.tasks:
        task = Task(pod(recorded.pod), recorded.policy)
        fits = {name: predicate(info, task) for name, info in nodes.items()}
        fitting = [name for name, fit in fits.items() if fit.fits]
        marks = scores([(nodes[name], fits[name]) for name in fitting], task, case.weight)
        ranked = None if marks is None else dict(zip(fitting, marks, strict=True))
        result: dict[str, Any] = {
            "nodes": {name: _fit(fit) for name, fit in fits.items()},
            "scores": ranked,
        }
        if fitting:
            bound = fitting[0] if ranked is None else max(fitting, key=ranked.__getitem__)
            result["bound"] = bound
            info = nodes[bound]
            nodes[bound] = None if info is None else bind(info, fits[bound])
        results.append(result)
    return results


def agrees(case: VolcanoCase, ours: list[dict[str, Any]]) -> bool:
    """Whether the answer is one that Volcano gave."""
    return ours == case.expect or ours in case.outcomes


def _info(recorded: _Info) -> NumaInfo:
    cpus = tuple(sorted(Cpu(*places) for places in recorded.cpus))
    if len({cpu.id for cpu in cpus}) < len(cpus):
        raise ValueError("a CPU is listed twice")
    return NumaInfo(
        cpus=cpus,
        free=None if recorded.allocatable is None else CpuSet.parse(recorded.allocatable).mask,
        cpu_policy=recorded.cpu_manager_policy,
        topology_policy=recorded.topology_manager_policy,
        reserved=None if recorded.reserved is None else quantity(recorded.reserved).nano,
    )


def _fit(fit: Fit) -> dict[str, Any]:
    if not fit.fits:
        return {"fit": False, "code": fit.code, "reason": fit.reason}
    return {"fit": True} if fit.cpus is None else {"fit": True, "cpus": list_form(fit.cpus)}
