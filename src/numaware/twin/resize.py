"""What the kubelet answers to a pod that is to be resized in place, as far as its resource managers decide it.

Mirrors `canResizePod` (v1.33 to v1.35) and `handlers.go` (v1.36 and later) of `pkg/kubelet/allocation`. Asked by
`serve/node_estimate.py`, which does not count for a pod what its kubelet will never give it, and by `numaware explain --resize`.
v1.34 is taken to speak as v1.35 does.
Memory-backed volumes and swap, which can make a resize infeasible too, are not looked at.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from numaware.twin.config import KubeletConfig
from numaware.twin.node import Node
from numaware.twin.readmission import allocatable, beyond_allocatable
from numaware.workload.pod import Pod, amount, milli, units
from numaware.workload.qos import qos_class, requested_in_all

# What must be open for pods of each manager to be resized; alpha, and off, in every release so far.
_CPU_GATE = "InPlacePodVerticalScalingExclusiveCPUs"
_MEMORY_GATE = "InPlacePodVerticalScalingExclusiveMemory"


def resize_is_infeasible(config: KubeletConfig, pod: Pod) -> bool:
    """Whether the kubelet refuses every resize of the pod.

    KUBELET: it does so for Guaranteed pods beside a static manager, whether or not they own a CPU (canResizePod).
    """
    if qos_class(pod) != "Guaranteed":
        return False
    return bool(_static_managers(config))


def _static_managers(config: KubeletConfig) -> dict[str, tuple[str, str]]:
    """Resources whose manager lets no Guaranteed pod be resized, with the manager's name and policy."""
    gates = dict(config.feature_gates)
    every = gates.get("AllAlpha", False)
    managers = {}
    if config.cpu_policy == "static" and not gates.get(_CPU_GATE, every):
        managers["cpu"] = ("CPU", config.cpu_policy)
    if config.memory_policy == "Static" and not gates.get(_MEMORY_GATE, every):
        managers["memory"] = ("Memory", config.memory_policy)
    return managers


class Resize(msgspec.Struct, frozen=True):
    """The kubelet's answer: given, put off until there is room, or never; `message` is its own words."""

    outcome: Literal["accepted", "Deferred", "Infeasible"]
    message: str = ""


def resized(node: Node, pod: Pod) -> Resize:
    """What the kubelet says to `pod`, which runs on the node with other amounts, as it is to become.

    `KeyError` if it does not run there; only releases that resize in place by default (v1.33 and later) can be asked.
    """
    kubelet, before = node.kubelet, node.state.pods[pod.uid]
    minor = kubelet.rules.minor
    if qos_class(pod) == "Guaranteed":
        for resource, (manager, policy) in _static_managers(kubelet.config).items():
            # KUBELET: v1.33 did not look at what is to be changed.
            if minor <= 33 or _changes(before, pod, resource):
                named = f'policy "{policy}"' if minor > 33 else "static policy"
                return Resize(
                    "Infeasible",
                    f"Resize is infeasible for Guaranteed Pods alongside {manager} Manager {named}",
                )
    if minor < 36 and (short := _beyond_node(node, pod)):
        return Resize("Infeasible", short)
    refused = _refused(node, pod)
    if refused:
        return Resize("Deferred", refused)
    others = [one for uid, one in node.state.pods.items() if uid != pod.uid]
    lacking = next(
        (one.message for one in beyond_allocatable(kubelet, [*others, pod]) if one.uid == pod.uid), ""
    )
    return Resize("Deferred", lacking) if lacking else Resize("accepted")


def _changes(before: Pod, after: Pod, resource: str) -> bool:
    had = {one.name: amount(one.requests, resource) for one in before.in_order}
    return any(amount(one.requests, resource) != had.get(one.name) for one in after.in_order)


def _beyond_node(node: Node, pod: Pod) -> str:
    """Until v1.35 a request beyond the whole node is infeasible; memory is named first."""
    room, requested = allocatable(node.kubelet), requested_in_all(pod, sidecars=node.kubelet.rules.sidecars)
    wanted = {"memory": units(requested.get("memory", 0)), "cpu": milli(requested.get("cpu", 0))}
    for resource, asked in wanted.items():
        if asked > room[resource]:
            return f"Node didn't have enough capacity: {resource}, requested: {asked}, capacity: {room[resource]}"
    return ""


def _refused(node: Node, pod: Pod) -> str:
    """What the Topology Manager and the managers under it say; nothing of what they give is kept here.

    KUBELET: until v1.36 they do not know that it is a resize, and judge the pod as at a restart.
    """
    if not node.kubelet.rules.resize_apart:
        return node.admit(pod).message
    return node.readmitted_devices(pod)
