"""A prediction that failed, as a file anybody can replay: the node, its pods, the pod, and what really happened.

The scenario is in the format of recorded kubelet sessions (`numaware twin replay` reads it). Pods that have left in the
meantime are not in it, so the state files of the node go along, and `exact` says whether the scenario alone leads to
the same prediction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from numaware.errors import InputError
from numaware.machine.quantity import Quantity
from numaware.machine.words import printable
from numaware.schedule.ledger import Observation, Placement, Prediction, compare, placement_of, predict
from numaware.twin.config import Amounts, KubeletConfig, Options
from numaware.twin.errors import KubeletPanic, StartError
from numaware.twin.files import load_state, state_files
from numaware.twin.hardware import Hardware
from numaware.twin.node import Node
from numaware.twin.recording import Recording, arranged, replay
from numaware.workload.demand import is_memory
from numaware.workload.pod import Container, Pod, Resources


def bundle(before: Node, pod: Pod, prediction: Prediction, observed: Observation) -> dict[str, Any]:
    """All that is needed to look into a miss; `before` is the node as it was believed to be when the pod came."""
    recorded = scenario(f"{prediction.node}/{prediction.pod}", before, [*before.state.pods.values(), pod])
    return {
        "scenario": recorded,
        "outcome": compare(prediction, observed),
        "predicted": _told(prediction.placement, prediction.reason),
        "observed": _told(observed.placement, observed.reason),
        "stateFiles": state_files(before.kubelet, before.state),
        "exact": _leads_to(recorded, before, pod),
    }


class Again(msgspec.Struct, frozen=True):
    """A miss looked into again: what was predicted, what happened, what the twin says now, and how the two compare."""

    id: str
    outcome: str
    predicted: Observation
    observed: Observation
    now: Observation
    explained: bool


class _Told(msgspec.Struct):
    admitted: bool
    reason: str = ""
    placement: Placement | None = None

    @property
    def observation(self) -> Observation:
        return Observation(self.placement if self.admitted else None, self.reason)


class _Bundle(msgspec.Struct, rename="camel"):
    outcome: str
    predicted: _Told
    observed: _Told
    state_files: dict[str, str] = {}


def again(data: bytes, source: str) -> Again:
    """Ask the twin of today what became of a kept miss; `InputError` for what is none."""
    try:
        kept = msgspec.json.decode(data, type=_Bundle)
        recorded = msgspec.json.decode(data, type=Recording).scenario
        fresh, pods = arranged(recorded)
        state = load_state(fresh.kubelet, {name: text.encode() for name, text in kept.state_files.items()})
    except (msgspec.MsgspecError, ValueError, StartError, RecursionError) as error:
        raise InputError(source, f"not a kept miss: {printable(str(error), 300)}") from None
    if not pods:
        raise InputError(source, "not a kept miss: no pod comes")
    observed = kept.observed.observation
    try:
        now = predict(recorded.id, pods[-1], Node(fresh.kubelet, state).admit(pods[-1]))
    except KubeletPanic as crash:
        return Again(
            recorded.id,
            kept.outcome,
            kept.predicted.observation,
            observed,
            Observation(None, str(crash)),
            False,
        )
    told = Observation(now.placement, now.reason)
    explained = compare(now, observed) == "match" and now.reason == observed.reason
    return Again(recorded.id, kept.outcome, kept.predicted.observation, observed, told, explained)


def scenario(name: str, node: Node, pods: Iterable[Pod]) -> dict[str, Any]:
    """The node's machine and configuration, and its pods arriving one after the other."""
    kubelet = node.kubelet
    return {
        "id": name,
        "kubernetesVersion": kubelet.config.version,
        "machine": _machine(kubelet.hardware),
        "config": _config(kubelet.config),
        "events": [{"op": "add", "pod": _pod(pod)} for pod in pods],
    }


def _leads_to(recorded: dict[str, Any], before: Node, pod: Pod) -> bool:
    """Whether playing the scenario gives the pod what it would get on the node as it really was."""
    replayed = replay(msgspec.convert({"scenario": recorded}, Recording).scenario)
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
    found = {container["name"]: container for container in last.get("containers", ())}
    return last.get("admitted") is True and all(
        (found[part.name]["cpuset"] or "") == part.cpus
        and [
            (tuple(block["numaAffinity"]), block["type"], block["size"])
            for block in found[part.name]["memory"]
        ]
        == list(part.memory)
        for part in placed
    )


def _told(placement: Placement | None, reason: str) -> dict[str, Any]:
    if placement is None:
        return {"admitted": False, "reason": reason}
    return {"admitted": True, "placement": msgspec.to_builtins(placement)}


def _machine(hardware: Hardware) -> dict[str, Any]:
    return {
        "numa": [
            {
                "id": numa.id,
                "memoryBytes": numa.memory_bytes,
                "hugepages": dict(numa.hugepages),
                "distances": list(numa.distances),
                "cpus": [
                    {"id": cpu.id, "core": cpu.core, "socket": cpu.socket, "uncoreCache": cpu.uncore}
                    for cpu in numa.cpus
                ],
            }
            for numa in hardware.numa
        ],
        "devices": {
            resource.name: [
                {"id": device.id, "numa": list(device.numa), "unhealthy": not device.healthy}
                for device in resource.devices
            ]
            for resource in hardware.resources
        },
        "preferredAllocation": [resource.name for resource in hardware.resources if resource.prefers],
    }


def _config(config: KubeletConfig) -> dict[str, Any]:
    return {
        "topologyManagerPolicy": config.topology_policy,
        "topologyManagerScope": config.topology_scope,
        "topologyManagerPolicyOptions": _pairs(config.topology_options),
        "cpuManagerPolicy": config.cpu_policy,
        "cpuManagerPolicyOptions": _pairs(config.cpu_options),
        "memoryManagerPolicy": config.memory_policy,
        "kubeReserved": _amounts(config.kube_reserved),
        "systemReserved": _amounts(config.system_reserved),
        "evictionHard": _pairs(config.eviction_hard),
        "reservedSystemCPUs": config.reserved_cpus,
        "reservedMemory": [
            {"numaNode": entry.numa_node, "limits": _amounts(entry.limits)}
            for entry in config.reserved_memory
        ],
    }


def _pod(pod: Pod) -> dict[str, Any]:
    return {
        "uid": pod.uid,
        "name": pod.name,
        "namespace": pod.namespace,
        "initContainers": [_container(container) for container in pod.init_containers],
        "containers": [_container(container) for container in pod.containers],
    }


def _container(container: Container) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": container.name,
        "requests": _resources(container.requests),
        "limits": _resources(container.limits),
    }
    if container.restartable:
        told["restartPolicy"] = "Always"
    return told


def _resources(resources: Resources) -> Mapping[str, str]:
    return {name: str(Quantity(nano, "binary" if is_memory(name) else "decimal")) for name, nano in resources}


def _amounts(amounts: Amounts) -> dict[str, str]:
    return {name: str(quantity) for name, quantity in amounts}


def _pairs(options: Options) -> dict[str, str]:
    return dict(options)
