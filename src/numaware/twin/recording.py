"""Recorded kubelet sessions: run a scenario on the twin, and say what came of each event as the recorders would.

A scenario (`scenario.py`) is a machine, a configuration and a list of events; a result is what came out of each. The
format is described in tests/vectors/README.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec

from numaware.machine.cpuset import list_form
from numaware.twin.account import container_placement, free_devices, held_by
from numaware.twin.errors import KubeletPanic, StartError
from numaware.twin.files import devices_by_node, state_files
from numaware.twin.hardware import Layout
from numaware.twin.kubelet import Kubelet
from numaware.twin.node import Merge, Node, NodeState, Verdict
from numaware.twin.reservation import node_reservation
from numaware.twin.scenario import Event, Scenario, configuration_of
from numaware.twin.topology.hints import Answer, Hints
from numaware.workload.pod import Pod
from numaware.workload.qos import qos_class


class Result(msgspec.Struct, frozen=True, rename="camel"):
    """What a kubelet did with a scenario, and which part of it would come out the same when asked again."""

    start: dict[str, Any]
    events: tuple[dict[str, Any], ...] = ()
    compare_events: Annotated[int, msgspec.Meta(ge=0)] | None = None
    unstable: tuple[str, ...] = ()

    @property
    def comparable(self) -> tuple[dict[str, Any], ...]:
        """The events up to the first one that rests on chance."""
        return self.events[: self.compare_events]


class Recording(msgspec.Struct, frozen=True):
    """One line of a recording; the result is there when a kubelet was asked."""

    scenario: Scenario
    result: Result | None = None


def replay(scenario: Scenario) -> dict[str, Any]:
    """What the twin says to a scenario, in the shape of a recorded result."""
    hardware, config = scenario.machine.hardware(), configuration_of(scenario)
    beginning: dict[str, Any] = {
        "error": None,
        "stage": None,
        "nodeAllocatableReservation": {
            name: str(quantity) for name, quantity in node_reservation(config, hardware.numa).items()
        },
    }
    result: dict[str, Any] = {
        "id": scenario.id,
        "start": beginning,
        "events": [],
        "compareEvents": 0,
        "unstable": [],
        "runs": 1,
    }
    try:
        node = Node.fresh(hardware, config)
    except StartError as error:
        beginning.update(error=error.message, stage=error.stage, checkpoints={})
        return result
    beginning.update(_beginning(node))
    for event in scenario.events:
        try:
            outcome, node = _event(node, event)
        except KubeletPanic as crash:
            outcome = {"op": event.op, "panic": str(crash)}
            if event.pod is not None:
                outcome["uid"] = event.pod.uid
            result["events"].append(outcome)
            break
        except StartError as error:
            result["events"].append({"op": event.op, "startError": error.message, "stage": error.stage})
            break
        result["events"].append(outcome)
    result["compareEvents"] = len(result["events"])
    return result


def _beginning(node: Node) -> dict[str, Any]:
    cpus = node.kubelet.cpus
    beginning: dict[str, Any] = {
        "defaultCpuSet": list_form(node.state.cpu.shared),
        "checkpoints": state_files(node.kubelet, node.state),
        "allocatableCPUs": list_form(cpus.layout.all_cpus & ~cpus.reserved) if cpus else "",
    }
    if cpus:
        beginning["reservedCPUs"] = list_form(cpus.reserved)
    return beginning


def _event(node: Node, event: Event) -> tuple[dict[str, Any], Node]:
    outcome: dict[str, Any] = {"op": event.op}
    before: NodeState | None = None
    if event.op == "add" and event.pod is not None:
        pod = event.pod.pod()
        merges: list[Merge] = []
        verdict = node.admit(pod, merges.append)
        outcome.update(_admission(node.kubelet, pod, verdict, merges))
        if not verdict.admitted:
            before = verdict.held
        node = verdict.node
    elif event.op == "restart":
        heard: dict[str, list[Merge]] = {uid: [] for uid in node.state.pods}
        pods = node.state.pods
        node, verdicts, before = node.restart(lambda uid, merge: heard[uid].append(merge))
        outcome["startError"] = None
        outcome["readmissions"] = [
            _admission(node.kubelet, pods[uid], verdict, heard[uid]) for uid, verdict in verdicts
        ]
    elif event.op in ("remove", "start"):
        pod_or_none = node.state.pods.get(event.uid)
        outcome.update(uid=event.uid, found=pod_or_none is not None)
        node = node.release(event.uid) if event.op == "remove" else node.start_containers(event.uid)
        if event.op == "start" and pod_or_none is not None:
            outcome["containers"] = _containers(node.kubelet, pod_or_none, node.state)
    else:
        raise ValueError(f"unknown event {event.op!r}")
    outcome["defaultCpuSet"] = list_form(node.state.cpu.shared)
    outcome["freeDevices"] = {
        name: free_devices(node, name).bit_count() for name in node.kubelet.devices.inventories
    }
    outcome["checkpoints"] = state_files(node.kubelet, node.state)
    if before is not None and (held := state_files(node.kubelet, before)) != outcome["checkpoints"]:
        outcome["checkpointsBeforeCleanup"] = held
    return outcome, node


def _admission(kubelet: Kubelet, pod: Pod, verdict: Verdict, merges: Iterable[Merge]) -> dict[str, Any]:
    return {
        "uid": pod.uid,
        "admitted": verdict.admitted,
        "reason": verdict.reason,
        "message": verdict.message,
        "qos": qos_class(pod),
        "merges": [_merge(kubelet.layout, merge) for merge in merges],
        "containers": _containers(kubelet, pod, verdict.held),
    }


def _merge(layout: Layout, merge: Merge) -> dict[str, Any]:
    def hint(mask: int | None, preferred: bool) -> dict[str, Any]:
        return {"mask": None if mask is None else list(layout.node_ids(mask)), "preferred": preferred}

    def listed(hints: Hints) -> list[dict[str, Any]]:
        preferred = set(hints.preferred)
        return [hint(mask, mask in preferred) for mask in hints.masks]

    def answer(hints: Answer) -> dict[str, Any]:
        return {resource: None if masks is None else listed(masks) for resource, masks in hints.items()}

    return {
        "container": merge.container,
        "hints": {"device": answer(merge.device), "cpu": answer(merge.cpu), "memory": answer(merge.memory)},
        "best": hint(*merge.best),
        "admit": merge.admitted,
    }


def _containers(kubelet: Kubelet, pod: Pod, state: NodeState) -> list[dict[str, Any]]:
    return [
        {
            **container_placement(kubelet, state, pod.uid, container.name).to_builtins(),
            "devices": {
                resource: _devices(devices_by_node(kubelet, resource, mask))
                for resource, mask in held_by(state, pod.uid, (container.name,)).devices.items()
            },
        }
        for container in pod.in_order
    ]


def _devices(by_node: Mapping[int, list[str]]) -> dict[str, Any]:
    return {
        "numa": {str(node): len(ids) for node, ids in by_node.items()},
        "ids": sorted({device for ids in by_node.values() for device in ids}),
    }
