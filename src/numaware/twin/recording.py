"""Recorded kubelet sessions: read a scenario, run it on the twin, and compare with what the kubelet did.

A scenario is a machine, a configuration and a list of events (pods added, removed, started; kubelet restarts); a
result is what came out of each. The format is described in tests/vectors/README.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec

from numaware.machine.cpuset import list_form
from numaware.machine.words import printable
from numaware.twin.config_text import ConfigText, amounts_of
from numaware.twin.errors import KubeletPanic, StartError
from numaware.twin.files import devices_by_node, state_files
from numaware.twin.hardware import CpuPlace, Hardware, Layout, NumaHardware, PluginDevice, PluginResource
from numaware.twin.kubelet import Kubelet
from numaware.twin.node import Merge, Node, NodeState, Verdict
from numaware.twin.reservation import node_reservation
from numaware.twin.topology.hints import Answer, Hints
from numaware.workload.pod import Container, Pod, Resources, amount
from numaware.workload.qos import qos_class

# The recordings were made with these gates open, so that alpha options can be used in every release.
_GATES = tuple(
    (f"{manager}Policy{stage}Options", True)
    for manager in ("CPUManager", "TopologyManager")
    for stage in ("", "Alpha", "Beta")
)


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    pass


class _Cpu(_Wire, frozen=True):
    id: int
    core: int
    socket: int
    uncore_cache: int | None = None


class _Numa(_Wire, frozen=True):
    id: int
    memory_bytes: int = 0
    hugepages: dict[str, int] = {}
    distances: tuple[int, ...] = ()
    cpus: tuple[_Cpu, ...] = ()


class _Device(_Wire, frozen=True):
    id: str
    numa: tuple[int, ...] = ()
    unhealthy: bool = False


class _Machine(_Wire, frozen=True):
    numa: tuple[_Numa, ...]
    devices: dict[str, tuple[_Device, ...]] = {}
    preferred_allocation: tuple[str, ...] = ()


class _Container(_Wire, frozen=True):
    name: str
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    restart_policy: str | None = None


class _Pod(_Wire, frozen=True):
    uid: str
    name: str
    namespace: str = "default"
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()


class _Event(_Wire, frozen=True):
    op: str
    pod: _Pod | None = None
    uid: str = ""


class Scenario(_Wire, frozen=True):
    """One recorded session's input."""

    id: str
    machine: _Machine
    config: ConfigText
    events: tuple[_Event, ...] = ()
    kubernetes_version: str = "v1.35.0"


class Result(_Wire, frozen=True):
    """What a kubelet did with a scenario, and which part of it would come out the same when asked again."""

    start: dict[str, Any]
    events: tuple[dict[str, Any], ...] = ()
    compare_events: Annotated[int, msgspec.Meta(ge=0)] | None = None
    unstable: tuple[str, ...] = ()

    @property
    def comparable(self) -> tuple[dict[str, Any], ...]:
        """The events up to the first one that rests on chance."""
        return self.events[: self.compare_events]


class Recording(_Wire, frozen=True):
    """One line of a recording; the result is there when a kubelet was asked."""

    scenario: Scenario
    result: Result | None = None


def arranged(scenario: Scenario) -> tuple[Node, tuple[Pod, ...]]:
    """The node before anything happens, and the pods that will come, in order; `StartError` if it never starts."""
    config = scenario.config.configuration(scenario.kubernetes_version, _GATES)
    node = Node.fresh(_hardware(scenario.machine), config)
    return node, tuple(_pod(event.pod) for event in scenario.events if event.pod is not None)


def replay(scenario: Scenario) -> dict[str, Any]:
    """What the twin says to a scenario, in the shape of a recorded result."""
    hardware = _hardware(scenario.machine)
    config = scenario.config.configuration(scenario.kubernetes_version, _GATES)
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
    found: dict[str, Any] = {
        "defaultCpuSet": list_form(node.state.cpu.shared),
        "checkpoints": state_files(node.kubelet, node.state),
        "allocatableCPUs": list_form(cpus.layout.all_cpus & ~cpus.reserved) if cpus else "",
    }
    if cpus:
        found["reservedCPUs"] = list_form(cpus.reserved)
    return found


def _event(node: Node, event: _Event) -> tuple[dict[str, Any], Node]:
    outcome: dict[str, Any] = {"op": event.op}
    before: NodeState | None = None
    if event.op == "add" and event.pod is not None:
        pod = _pod(event.pod)
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
        name: node.kubelet.devices.free(node.state.device, name).bit_count()
        for name in node.kubelet.devices.inventories
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
        return {resource: None if found is None else listed(found) for resource, found in hints.items()}

    return {
        "container": merge.container,
        "hints": {"device": answer(merge.device), "cpu": answer(merge.cpu), "memory": answer(merge.memory)},
        "best": hint(*merge.best),
        "admit": merge.admitted,
    }


def _containers(kubelet: Kubelet, pod: Pod, state: NodeState) -> list[dict[str, Any]]:
    cpus = state.cpu.owned.get(pod.uid, {})
    blocks = state.memory.blocks.get(pod.uid, {})
    devices = state.device.owned.get(pod.uid, {})
    return [
        {
            "name": container.name,
            "cpuset": list_form(cpus[container.name]) if container.name in cpus else None,
            "memory": [
                {
                    "numaAffinity": list(kubelet.layout.node_ids(block.nodes)),
                    "type": block.kind,
                    "size": block.size,
                }
                for block in blocks.get(container.name, ())
            ],
            "devices": {
                resource: _devices(devices_by_node(kubelet, resource, held))
                for resource, held in sorted(devices.get(container.name, {}).items())
            },
        }
        for container in pod.in_order
    ]


def _devices(by_node: Mapping[int, list[str]]) -> dict[str, Any]:
    return {
        "numa": {str(node): len(ids) for node, ids in by_node.items()},
        "ids": sorted({device for ids in by_node.values() for device in ids}),
    }


def _hardware(machine: _Machine) -> Hardware:
    numa = tuple(
        NumaHardware(
            node.id,
            tuple(CpuPlace(cpu.id, cpu.core, cpu.socket, cpu.uncore_cache) for cpu in node.cpus),
            node.memory_bytes,
            tuple(sorted(node.hugepages.items())),
            node.distances,
        )
        for node in machine.numa
    )
    resources = tuple(
        PluginResource(
            name,
            tuple(PluginDevice(device.id, device.numa, not device.unhealthy) for device in devices),
            name in machine.preferred_allocation,
        )
        for name, devices in machine.devices.items()
    )
    return Hardware(numa, resources)


def _pod(pod: _Pod) -> Pod:
    def container(wire: _Container) -> Container:
        requests, limits = _resources(wire.requests), _resources(wire.limits)
        for name, limit in limits:
            if amount(requests, name) > limit:
                raise ValueError(
                    f"container {printable(wire.name, 80)!r} requests more {printable(name, 80)} than its limit"
                )
        return Container(wire.name, requests, limits, wire.restart_policy == "Always")

    return Pod(
        name=pod.name,
        namespace=pod.namespace,
        uid=pod.uid,
        containers=tuple(map(container, pod.containers)),
        init_containers=tuple(map(container, pod.init_containers)),
    )


def _resources(amounts: Mapping[str, str]) -> Resources:
    return tuple((name, quantity.nano) for name, quantity in amounts_of(amounts))
