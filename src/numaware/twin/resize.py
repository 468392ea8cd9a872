"""What the kubelet answers to a pod that is to be resized in place, as far as its resource managers decide it.

Mirrors `canResizePod` of `pkg/kubelet/allocation` (v1.33 to v1.37). Asked by `serve/node_estimate.py`, which does not count for a
pod what its kubelet will never give it.
"""

from __future__ import annotations

from numaware.twin.config import KubeletConfig
from numaware.workload.pod import Pod
from numaware.workload.qos import qos_class

# What must be open for pods of each manager to be resized; alpha, and off, in every release so far.
_CPU_GATE = "InPlacePodVerticalScalingExclusiveCPUs"
_MEMORY_GATE = "InPlacePodVerticalScalingExclusiveMemory"


def resize_is_infeasible(config: KubeletConfig, pod: Pod) -> bool:
    """Whether the kubelet refuses every resize of the pod.

    KUBELET: it does so for Guaranteed pods beside a static manager, whether or not they own a CPU (canResizePod).
    """
    if qos_class(pod) != "Guaranteed":
        return False
    gates = dict(config.feature_gates)
    every = gates.get("AllAlpha", False)
    return (config.cpu_policy == "static" and not gates.get(_CPU_GATE, every)) or (
        config.memory_policy == "Static" and not gates.get(_MEMORY_GATE, every)
    )
