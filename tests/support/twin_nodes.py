"""Machines, configurations and pods for tests of the twin, each in one line.

Sizes are small whole numbers; what a test does not mention is the plainest thing there is.
"""

from __future__ import annotations

from collections.abc import Mapping

from numaware.machine.cpuset import list_form
from numaware.machine.quantity import Quantity
from numaware.twin.config import Amounts, KubeletConfig, MemoryReservation, Options
from numaware.twin.files import devices_by_node
from numaware.twin.hardware import CpuPlace, Hardware, NumaHardware, PluginDevice, PluginResource
from numaware.twin.node import Node
from numaware.workload.pod import NANO, Container, Pod, Resources

GI = 1 << 30
GPU = "vendor.example/gpu"
NIC = "vendor.example/nic"
HUGE = "hugepages-2Mi"

# Options of every stage can be used.
GATES = tuple(
    sorted(
        (f"{manager}Policy{stage}Options", True)
        for manager in ("CPUManager", "TopologyManager")
        for stage in ("", "Alpha", "Beta")
    )
)


def machine(
    nodes: int = 2,
    cpus: int = 8,
    *,
    threads: int = 1,
    memory: int = 64 * GI,
    hugepages: int = 0,
    devices: Mapping[str, Mapping[str, tuple[int, ...]]] | None = None,
) -> Hardware:
    """`nodes` sockets of one NUMA node and `cpus` CPUs each, siblings next to each other; devices as id -> nodes."""
    return Hardware(
        tuple(
            NumaHardware(
                node,
                tuple(CpuPlace(cpu, cpu // threads, node) for cpu in range(node * cpus, (node + 1) * cpus)),
                memory,
                ((HUGE, hugepages),) if hugepages else (),
                tuple(10 if other == node else 20 for other in range(nodes)),
            )
            for node in range(nodes)
        ),
        tuple(
            PluginResource(name, tuple(PluginDevice(device, where) for device, where in ids.items()))
            for name, ids in (devices or {}).items()
        ),
    )


def config(
    policy: str = "none",
    *,
    scope: str = "container",
    cpu_options: Options = (),
    topology_options: Options = (),
    memory: bool = False,
    reserved: str = "1",
    version: str = "v1.35.0",
) -> KubeletConfig:
    """CPU policy static with `reserved` CPUs kept back; with `memory` the Static one, 1Gi kept back on node 0."""
    kept = quantities({"cpu": reserved, "memory": "1Gi"} if memory else {"cpu": reserved})
    return KubeletConfig(
        version=version,
        topology_policy=policy,
        topology_scope=scope,
        topology_options=topology_options,
        cpu_policy="static",
        cpu_options=cpu_options,
        memory_policy="Static" if memory else "None",
        kube_reserved=kept,
        reserved_memory=(MemoryReservation(0, quantities({"memory": "1Gi"})),) if memory else (),
        feature_gates=GATES,
    )


def container(
    name: str = "app", amounts: Mapping[str, int] | None = None, *, restartable: bool = False
) -> Container:
    """A container whose requests are its limits, in whole units."""
    resources = sized(amounts or {})
    return Container(name, resources, resources, restartable)


def pod(uid: str, cpus: int = 0, memory: int = GI, **devices: int) -> Pod:
    """A Guaranteed pod of one container `app`; without CPUs it is BestEffort. `gpu=1, nic=2, huge=4` are more."""
    names = {"gpu": GPU, "nic": NIC, "huge": HUGE}
    amounts = {names[name]: count for name, count in devices.items()}
    if cpus:
        amounts |= {"cpu": cpus, "memory": memory}
    return pod_of(uid, container("app", amounts))


def pod_of(uid: str, *containers: Container, init: tuple[Container, ...] = ()) -> Pod:
    return Pod(name=uid, uid=uid, containers=containers, init_containers=init)


def sized(amounts: Mapping[str, int]) -> Resources:
    return tuple(sorted((name, units * NANO) for name, units in amounts.items()))


def quantities(amounts: Mapping[str, str]) -> Amounts:
    return tuple((name, Quantity.parse(text)) for name, text in sorted(amounts.items()))


def admitted(node: Node, *pods: Pod) -> Node:
    """The node after these pods, all of which it takes."""
    for pod_ in pods:
        verdict = node.admit(pod_)
        assert verdict.admitted, (pod_.uid, verdict.message)
        node = verdict.node
    return node


def state_key(node: Node) -> tuple[object, ...]:
    """Equal keys answer alike to any new pod: what is free counts, not who holds the rest."""
    state = node.state
    return (
        node.kubelet,
        node.effective_shared(),
        state.memory.nodes,
        tuple(sorted(state.device.taken.items())),
    )


def cpus_of(node: Node, uid: str, name: str = "app") -> str:
    """A container's own CPUs as a list, or nothing."""
    return list_form(node.state.cpu.owned.get(uid, {}).get(name, 0))


def devices_of(node: Node, uid: str, resource: str = GPU, name: str = "app") -> dict[int, int]:
    """How many devices a container holds on each NUMA node."""
    held = node.state.device.owned.get(uid, {}).get(name, {}).get(resource, 0)
    return {place: len(ids) for place, ids in devices_by_node(node.kubelet, resource, held).items()}


def shared_pool(node: Node) -> str:
    return list_form(node.state.cpu.shared)
