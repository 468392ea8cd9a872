"""What the kubelet answers to a pod that is to be resized in place, as far as its resource managers decide it.

Mirrors `canResizePod` (v1.33 to v1.35) and `handlers.go` (v1.36 and later) of `pkg/kubelet/allocation`. Asked by
`serve/node_estimate.py`, which does not count for a pod what its kubelet will never give it, and by `numaware explain --resize`.
Memory-backed volumes and swap, which can make a resize infeasible too, are not looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

from numaware.machine.quantity import ZERO
from numaware.twin.config import KubeletConfig
from numaware.twin.gates import enabled
from numaware.twin.kubelet import Kubelet
from numaware.twin.node import Node
from numaware.twin.readmission import allocatable, beyond_allocatable
from numaware.twin.reservation import node_reservation
from numaware.twin.rules import rules_for
from numaware.workload.pod import Container, Pod, Resources, amount, milli, units
from numaware.workload.qos import qos_class, requested_in_all

# What must be open for pods of each manager to be resized; alpha, and off, in every release so far.
_CPU_GATE = "InPlacePodVerticalScalingExclusiveCPUs"
_MEMORY_GATE = "InPlacePodVerticalScalingExclusiveMemory"
_POD_GATE = "InPlacePodLevelResourcesVerticalScaling"
_RESIZED = ("cpu", "memory")


def resize_is_infeasible(config: KubeletConfig, pod: Pod) -> bool:
    """Whether the kubelet will never give the pod what it is to become (`pod.resizing`)."""
    if qos_class(pod) != "Guaranteed":
        return False
    return bool(_forbidden(config, [name for name, _ in pod.resizing]))


def _forbidden(config: KubeletConfig, changed: Collection[str]) -> str:
    """Why no Guaranteed pod gets other amounts of these resources, in the kubelet's words; empty where it may.

    KUBELET: that it owns no CPU does not help it. v1.33 does not look at what is to be changed, and has one gate for both
    managers (canResizePod).
    """
    gates, rules = config.feature_gates, rules_for(config.version)
    all_or_none = not rules.resize_by_resource
    for name, manager, policy, static, gate in (
        ("cpu", "CPU", config.cpu_policy, "static", _CPU_GATE),
        ("memory", "Memory", config.memory_policy, "Static", _CPU_GATE if all_or_none else _MEMORY_GATE),
    ):
        if policy == static and (all_or_none or name in changed) and not enabled(gate, rules.minor, gates):
            named = "static policy" if all_or_none else f'policy "{policy}"'
            return f"Resize is infeasible for Guaranteed Pods alongside {manager} Manager {named}"
    return ""


class Resize(msgspec.Struct, frozen=True):
    """The kubelet's answer: given, put off until there is room, or never; `message` is its own words."""

    outcome: Literal["accepted", "Deferred", "Infeasible"]
    message: str = ""


def resized(node: Node, pod: Pod) -> Resize:
    """What the kubelet says to `pod`, which runs on the node with other amounts, as it is to become.

    `KeyError` if it does not run there; only releases that resize in place by default (v1.33 and later) can be asked.
    """
    kubelet, before = node.kubelet, node.state.pods[pod.uid]
    gates, rules = kubelet.config.feature_gates, kubelet.rules
    pairs = _pairs(before, pod)
    amounts = [((old.requests, old.limits), (new.requests, new.limits)) for old, new in pairs]
    # KUBELET: without its gate it does not see that what the pod has as a whole is another (updatePodFromAllocation).
    if enabled(_POD_GATE, rules.minor, gates):
        amounts.append(((before.pod_requests, before.pod_limits), (pod.pod_requests, pod.pod_limits)))
    if not any(_differs(*pair) for pair in amounts):
        return Resize("accepted")
    if qos_class(pod) == "Guaranteed":
        # KUBELET: only what containers request is looked at, not what the pod asks for as a whole.
        changed = {name for old, new in pairs for name in _differs((old.requests,), (new.requests,))}
        if never := _forbidden(kubelet.config, changed):
            return Resize("Infeasible", never)
    if not rules.resize_waits and (short := _beyond_node(kubelet, pod)):
        return Resize("Infeasible", short)
    refused = _refused(node, pod)
    if refused:
        return Resize("Deferred", refused)
    others = [one for uid, one in node.state.pods.items() if uid != pod.uid]
    lacking = next(
        (one.message for one in beyond_allocatable(kubelet, [*others, pod]) if one.uid == pod.uid), ""
    )
    return Resize("Deferred", lacking) if lacking else Resize("accepted")


def _pairs(before: Pod, after: Pod) -> list[tuple[Container, Container]]:
    """Each container as it is and as it is to become."""
    had = {one.name: one for one in before.in_order}
    return [(had.get(one.name, Container(one.name)), one) for one in after.in_order]


def _differs(before: Sequence[Resources], after: Sequence[Resources]) -> list[str]:
    """The resources that can be resized and differ in one of these amounts."""
    pairs = list(zip(before, after, strict=True))
    return [name for name in _RESIZED if any(amount(old, name) != amount(new, name) for old, new in pairs)]


def _beyond_node(kubelet: Kubelet, pod: Pod) -> str:
    """A request beyond the whole node, where that is infeasible; memory is named first."""
    room, requested = _whole_node(kubelet), requested_in_all(pod, sidecars=kubelet.rules.sidecars)
    wanted = {"memory": units(requested.get("memory", 0)), "cpu": milli(requested.get("cpu", 0))}
    for resource, asked in wanted.items():
        if asked > room[resource]:
            return f"Node didn't have enough capacity: {resource}, requested: {asked}, capacity: {room[resource]}"
    return ""


def _whole_node(kubelet: Kubelet) -> dict[str, int]:
    """What such a request is held against: thousandths of CPUs and bytes.

    KUBELET: in v1.34 and v1.35 huge pages and what hard eviction keeps free count as room here (GetNodeAllocatableAbsolute).
    """
    room = allocatable(kubelet)
    if kubelet.rules.resize_whole_machine:
        numa = kubelet.hardware.numa
        kept = node_reservation(msgspec.structs.replace(kubelet.config, eviction_hard=()), numa)
        room["memory"] = sum(node.memory_bytes for node in numa) - kept.get("memory", ZERO).value
    return room


def _refused(node: Node, pod: Pod) -> str:
    """What the Topology Manager and the managers under it say; nothing of what they give is kept here.

    KUBELET: until v1.36 they do not know that it is a resize, and judge the pod as at a restart.
    """
    if not node.kubelet.rules.resize_apart:
        return node.admit(pod).message
    return node.readmitted_devices(pod)
