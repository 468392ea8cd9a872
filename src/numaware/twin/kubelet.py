"""A kubelet that has started: its managers, compiled once from hardware and configuration.

Every node of the same kind shares one `Kubelet`; only the state differs. Mirrors the wiring in
`cm/container_manager_linux.go`: the Topology Manager is set up first, then CPU, then memory.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count

from numaware.machine.cpuset import CpuSet, list_form
from numaware.twin.config import KubeletConfig
from numaware.twin.cpu.static import StaticCpus
from numaware.twin.device.manager import DeviceManager
from numaware.twin.errors import StartError
from numaware.twin.gates import enabled
from numaware.twin.gotext import map_text, quoted
from numaware.twin.hardware import Hardware, checked, layout
from numaware.twin.memory.static import StaticMemory
from numaware.twin.options import CpuOptions, parse_cpu_options, parse_topology_options
from numaware.twin.reservation import node_reservation, reserved_memory
from numaware.twin.rules import rules_for
from numaware.twin.topology.mask_overflow import LARGEST_ID
from numaware.twin.topology.merge import Closest, narrower
from numaware.twin.topology.policies import Policy
from numaware.workload.demand import Demand, demand_of
from numaware.workload.pod import Pod

MOST_NODES = 20
_NUMBERS = count()


class Kubelet:
    """The managers of one kind of node. Construction raises `StartError` where the kubelet would not start."""

    def __init__(self, hardware: Hardware, config: KubeletConfig) -> None:
        # Tells kubelets apart where the object itself would be too much to keep.
        self.number = next(_NUMBERS)
        self.hardware = hardware = checked(hardware)
        self.config = config
        self.rules = rules_for(config.version)
        self.layout = layout(hardware.numa)
        self._check_reserved_cpus()
        self._check_node_count()
        # Whether a NUMA node has no place in the kubelet's masks.
        self.overflows = self.layout.ids[-1] > LARGEST_ID
        self.reservation = node_reservation(config, hardware.numa)
        # Whether the managers hand out what pods have as a whole; without it they pass over such pods.
        gates, minor = config.feature_gates, self.rules.minor
        self.pod_level = enabled("PodLevelResourceManagers", minor, gates) and enabled(
            "PodLevelResources", minor, gates
        )
        self.policy = self._topology_policy()
        self.by_pod = config.topology_scope == "pod"
        self.cpus = self._cpu_manager()
        self.memory = self._memory_manager()
        self.devices = DeviceManager(self.layout, hardware.resources, self.rules)

    def demand(self, pod: Pod) -> Demand:
        """What the pod wants of this kubelet's managers."""
        return demand_of(pod.shape, self.rules.sidecars, self.pod_level)

    def _check_reserved_cpus(self) -> None:
        text = self.config.reserved_cpus
        if text and CpuSet.parse(text).mask & ~self.layout.all_cpus:
            online = list_form(self.layout.all_cpus)
            raise StartError("kubelet", f"reserved-cpus: {text} is not a subset of online-cpus: {online}")

    def _check_node_count(self) -> None:
        """Hints are one entry per set of NUMA nodes, here as in the kubelet; beyond some number nobody has the time."""
        config = self.config
        hints = config.topology_policy != "none" or config.memory_policy != "None"
        if hints and len(self.layout.ids) > MOST_NODES:
            raise ValueError(
                f"{len(self.layout.ids)} NUMA nodes are more than the {MOST_NODES} whose hints can be worked out "
                "(a kubelet of this configuration would not come to an end either)"
            )

    def _topology_policy(self) -> Policy | None:
        config = self.config
        none = config.topology_policy == "none"
        if none and not self.rules.none_is_checked:
            return None
        options = parse_topology_options(config.topology_options, config.version, config.feature_gates)
        if isinstance(options, str):
            raise StartError("topology", options)
        distances = tuple(node.distances for node in self.hardware.numa)
        if options.prefer_closest and not all(distances):
            raise StartError(
                "topology", "cannot discover NUMA topology: error getting NUMA distances from cadvisor"
            )
        if len(self.layout.ids) > options.max_allowable and not none:
            raise StartError(
                "topology", f"unsupported on machines with more than {options.max_allowable} NUMA Nodes"
            )
        if config.topology_policy not in ("none", "best-effort", "restricted", "single-numa-node"):
            raise StartError("topology", f"unknown policy: {quoted(config.topology_policy)}")
        if config.topology_scope not in ("container", "pod"):
            raise StartError("topology", f"unknown scope: {quoted(config.topology_scope)}")
        if none:
            return None
        closest = options.prefer_closest and distances is not None
        better = Closest(self.layout.ids, distances or ()) if closest else narrower
        return Policy(config.topology_policy, self.layout.full, better, equal_masks=self.rules.equal_masks)

    def _cpu_manager(self) -> StaticCpus | None:
        config = self.config
        if config.cpu_policy == "none":
            if config.cpu_options and self.rules.policy_options:
                raise StartError(
                    "cpu",
                    "new none policy error: None policy: received unsupported options="
                    + map_text(config.cpu_options),
                )
            return None
        if config.cpu_policy != "static":
            raise StartError("cpu", f"unknown policy: {quoted(config.cpu_policy)}")
        if "cpu" not in self.reservation:
            raise StartError(
                "cpu", "[cpumanager] unable to determine reserved CPU resources for static policy"
            )
        options = parse_cpu_options(config.cpu_options, config.version, config.feature_gates)
        if isinstance(options, str):
            raise StartError("cpu", f"new static policy error: {options}")
        self._check_sockets(options)
        reserved = CpuSet.parse(config.reserved_cpus).mask if config.reserved_cpus else None
        count = -(-self.reservation["cpu"].milli_value // 1000)
        return StaticCpus(self.layout, options, self.rules, reserved, count)

    def _check_sockets(self, options: CpuOptions) -> None:
        if not options.align_by_socket:
            return
        if self.config.topology_policy == "single-numa-node":
            raise StartError(
                "cpu",
                "new static policy error: Topolgy manager single-numa-node policy is incompatible with "
                "CPUManager align-by-socket policy option",
            )
        if len(self.layout.sockets) > len(self.layout.numas):
            raise StartError(
                "cpu",
                "new static policy error: Align by socket is not compatible with hardware where "
                "number of sockets are more than number of NUMA",
            )

    def _memory_manager(self) -> StaticMemory | None:
        config = self.config
        if not self.rules.memory_manager or config.memory_policy == "None":
            return None
        if config.memory_policy == "BestEffort" and self.rules.memory_best_effort:
            raise StartError("memory", 'policy "BestEffort" is not available for platform "linux"')
        if config.memory_policy != "Static":
            raise StartError("memory", f"unknown policy: {quoted(config.memory_policy)}")
        system = reserved_memory(config, self.hardware.numa, self.reservation)
        return StaticMemory(self.layout, self.hardware.numa, system, self.rules)


@lru_cache(maxsize=256)
def start(hardware: Hardware, config: KubeletConfig) -> Kubelet:
    """The started kubelet of this hardware and configuration; equal inputs share one."""
    return Kubelet(hardware, config)
