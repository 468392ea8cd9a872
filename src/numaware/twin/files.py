"""A node's state as the three files the kubelet keeps under its root directory.

The formats and checksums live in `state/`; here the managers' masks become their ids, lists and tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeVar

from numaware.machine.cpuset import CpuSet, iter_bits, list_form
from numaware.twin.cpu.static import CpuState
from numaware.twin.device.manager import DeviceState, Owned
from numaware.twin.errors import StartError
from numaware.twin.hardware import mask_of
from numaware.twin.kubelet import Kubelet
from numaware.twin.memory.state import Block, MemoryState, NodeMemory
from numaware.twin.memory.static import StaticMemory
from numaware.twin.node import NodeState
from numaware.twin.rules import Rules
from numaware.twin.state import cpu as cpu_file
from numaware.twin.state import device as device_file
from numaware.twin.state import memory as memory_file
from numaware.twin.state.alloc_response import one_variable
from numaware.twin.state.errors import (
    CorruptCheckpointError,
    RefusedCheckpointError,
    policy_changed,
    restore_error,
)
from numaware.twin.state.release import read_cpu, read_memory
from numaware.workload.pod import Pod

STATE_FILES = (cpu_file.FILE, memory_file.FILE, device_file.FILE)
_UINT64 = (1 << 64) - 1

Stored = TypeVar("Stored", cpu_file.CpuCheckpoint, memory_file.MemoryCheckpoint)


def state_files(kubelet: Kubelet, state: NodeState) -> dict[str, str]:
    """File name -> content, for the files this kubelet would have written."""
    files = {cpu_file.FILE: _cpu(kubelet, state)}
    if kubelet.rules.memory_manager:
        files[memory_file.FILE] = _memory(kubelet, state.memory)
    if kubelet.hardware.resources:
        files[device_file.FILE] = _device(kubelet, state)
    return files


def devices_by_node(kubelet: Kubelet, resource: str, devices: int) -> dict[int, list[str]]:
    """Device ids under each NUMA id they touch, -1 for those without topology, as the kubelet stores them."""
    inventory = kubelet.devices.inventories[resource]
    apart = -1 if kubelet.rules.no_topology_apart else 0
    by_node: dict[int, list[str]] = {}
    for index in iter_bits(devices):
        for node in inventory.announced[index] or (apart,):
            by_node.setdefault(node, []).append(inventory.ids[index])
    return dict(sorted(by_node.items()))


def _cpu(kubelet: Kubelet, state: NodeState) -> str:
    wrapped = kubelet.rules.wrapped_files
    pods = {uid: list_form(cpus) for uid, cpus in state.cpu.pods.items()} if kubelet.pod_level else None
    if kubelet.cpus is None:
        return cpu_file.encode("none", "", {}, pods=pods, wrapped=wrapped)
    owned = {
        uid: {container: list_form(cpus) for container, cpus in containers.items()}
        for uid, containers in state.cpu.owned.items()
    }
    return cpu_file.encode("static", list_form(state.cpu.shared), owned, pods=pods, wrapped=wrapped)


def _memory(kubelet: Kubelet, state: MemoryState) -> str:
    manager, wrapped = kubelet.memory, kubelet.rules.wrapped_files
    if manager is None:
        none: dict[str, list[memory_file.MemoryBlock]] | None = {} if kubelet.pod_level else None
        return memory_file.encode("None", {}, {}, pods=none, wrapped=wrapped)
    ids = manager.layout.node_ids
    nodes = {}
    for position, node in enumerate(state.nodes):
        tables = {}
        for index, kind in enumerate(manager.kinds):
            if kind in manager.totals[position]:
                tables[kind] = memory_file.MemoryTable(
                    manager.totals[position][kind],
                    manager.system.get((position, kind), 0),
                    manager.allocatable[position][index],
                    manager.reserved(state, position, index),
                    node.free[index],
                )
        nodes[manager.layout.ids[position]] = memory_file.NodeEntry(node.assignments, tables, ids(node.cells))

    def listed(blocks: tuple[Block, ...]) -> list[memory_file.MemoryBlock]:
        return [memory_file.MemoryBlock(ids(block.nodes), block.kind, block.size) for block in blocks]

    entries = {
        uid: {container: listed(blocks) for container, blocks in containers.items()}
        for uid, containers in state.blocks.items()
    }
    pods = {uid: listed(blocks) for uid, blocks in state.pods.items()} if kubelet.pod_level else None
    return memory_file.encode("Static", nodes, entries, pods=pods, wrapped=wrapped)


def _device(kubelet: Kubelet, state: NodeState) -> str:
    entries = []
    for uid, containers in state.device.file.items():
        for container, resources in containers.items():
            for resource, devices in resources.items():
                by_node = devices_by_node(kubelet, resource, devices)
                ids = {device for listed in by_node.values() for device in listed}
                entries.append(device_file.DeviceEntry(uid, container, resource, by_node, one_variable(ids)))
    registered = {
        name: [inventory.ids[index] for index in iter_bits(inventory.healthy)]
        for name, inventory in kubelet.devices.inventories.items()
    }
    return device_file.encode(entries, registered)


def load_state(kubelet: Kubelet, files: Mapping[str, bytes]) -> NodeState:
    """The state a starting kubelet takes from its files; a file that is not there means nothing was handed out.

    Raises `StartError` with the kubelet's words where it refuses a file, and `InputError` where a file is not one.
    Pods are known by their uid only, so each is on the node as an empty one that holds what the files say.
    """
    cpu = _load_cpu(kubelet, files.get(cpu_file.FILE))
    memory = _load_memory(kubelet, files.get(memory_file.FILE))
    device = _load_device(kubelet, files.get(device_file.FILE))
    uids = sorted({*cpu.owned, *memory.blocks, *device.owned})
    return NodeState(cpu, memory, device, {uid: Pod(name=uid, namespace="", uid=uid) for uid in uids})


def _taken_back(
    manager: Literal["CPU", "memory"],
    name: str,
    read: Callable[[bytes, Rules, bool], Stored],
    data: bytes,
    kubelet: Kubelet,
    policy: str,
) -> Stored:
    """The content of a manager's file, or the kubelet's refusal of one that is corrupt or of another policy."""
    try:
        checkpoint = read(data, kubelet.rules, kubelet.pod_level)
    except RefusedCheckpointError as error:
        raise StartError(manager.lower(), restore_error(manager, str(error.problem), name)) from None
    if checkpoint.policy != policy:
        changed = policy_changed(manager, policy, checkpoint.policy)
        raise StartError(manager.lower(), restore_error(manager, changed, name))
    return checkpoint


def _load_cpu(kubelet: Kubelet, data: bytes | None) -> CpuState:
    manager = kubelet.cpus
    fresh = manager.initial() if manager else CpuState(0, {})
    if data is None:
        return fresh
    rules = kubelet.rules
    checkpoint = _taken_back("CPU", cpu_file.FILE, read_cpu, data, kubelet, kubelet.config.cpu_policy)
    bad_list = cpu_file.unreadable_list(
        checkpoint, "default CPU set" if rules.wrapped_files else "default cpu set"
    )
    if bad_list:
        raise StartError("cpu", restore_error("CPU", bad_list, cpu_file.FILE))
    if manager is None:
        return fresh
    try:
        owned = {
            uid: {container: CpuSet.parse(cpus).mask for container, cpus in containers.items()}
            for uid, containers in checkpoint.entries.items()
        }
        pods = {uid: CpuSet.parse(cpus).mask for uid, cpus in checkpoint.pods.items() if kubelet.pod_level}
        return manager.restore(CpuState(CpuSet.parse(checkpoint.default_cpus).mask, owned, pods=pods))
    except ValueError as error:
        raise StartError("cpu", restore_error("CPU", str(error), cpu_file.FILE)) from None


def _load_memory(kubelet: Kubelet, data: bytes | None) -> MemoryState:
    manager = kubelet.memory
    fresh = manager.initial() if manager else MemoryState((), {})
    if data is None or not kubelet.rules.memory_manager:
        return fresh
    checkpoint = _taken_back(
        "memory", memory_file.FILE, read_memory, data, kubelet, kubelet.config.memory_policy
    )
    if manager is None:
        return fresh
    if not checkpoint.machine_state:
        if checkpoint.entries:
            raise StartError(
                "memory", "[memorymanager] machine state can not be empty when it has memory assignments"
            )
        return fresh
    return manager.restore(_memory_state(manager, checkpoint, own=kubelet.pod_level))


def _memory_state(
    manager: StaticMemory, checkpoint: memory_file.MemoryCheckpoint, *, own: bool
) -> MemoryState:
    """The file's tables as masks; a table that could not be of this machine is what the kubelet calls different."""
    position = {node: index for index, node in enumerate(manager.layout.ids)}
    different = StartError(
        "memory", "[memorymanager] the expected machine state is different from the real one"
    )
    if checkpoint.machine_state.keys() != position.keys():
        raise different
    nodes = []
    for node, index in position.items():
        entry = checkpoint.machine_state[node]
        if entry.memory_map.keys() != manager.totals[index].keys() or not set(entry.cells) <= position.keys():
            raise different
        free = []
        for number, kind in enumerate(manager.kinds):
            allocatable = manager.allocatable[index][number]
            table = entry.memory_map.get(kind)
            if table is None:
                free.append(allocatable)
                continue
            fixed = (manager.totals[index][kind], manager.system.get((index, kind), 0), allocatable)
            used = (allocatable - table.free) & _UINT64
            if (table.total, table.system_reserved, table.allocatable) != fixed or table.reserved != used:
                raise different
            free.append(table.free)
        nodes.append(
            NodeMemory(
                entry.number_of_assignments, mask_of(position[cell] for cell in entry.cells), tuple(free)
            )
        )

    def read(uid: str, container: str, held: Sequence[memory_file.MemoryBlock]) -> tuple[Block, ...]:
        for block in held:
            _check_block(manager, uid, container, block, position)
        return tuple(
            Block(mask_of(position[node] for node in block.numa_affinity), block.type, block.size)
            for block in held
        )

    pods = {uid: read(uid, "", held) for uid, held in checkpoint.pods.items() if own}
    blocks = {
        uid: {container: read(uid, container, held) for container, held in containers.items()}
        for uid, containers in checkpoint.entries.items()
    }
    return MemoryState(tuple(nodes), blocks, pods=pods)


def _check_block(
    manager: StaticMemory,
    uid: str,
    container: str,
    block: memory_file.MemoryBlock,
    position: Mapping[int, int],
) -> None:
    where = f"[memorymanager] (pod: {uid}, container: {container}) the memory assignment uses"
    for node in block.numa_affinity:
        if node not in position:
            raise StartError("memory", f"{where} the NUMA that does not exist")
        if block.type not in manager.totals[position[node]]:
            raise StartError("memory", f"{where} memory resource that does not exist")


def _load_device(kubelet: Kubelet, data: bytes | None) -> DeviceState:
    manager = kubelet.devices
    if data is None:
        return manager.initial()
    try:
        checkpoint = device_file.decode(data)
    except CorruptCheckpointError:
        # KUBELET: the Device Manager logs a corrupt file and starts with an empty table.
        return manager.initial()
    owned: Owned = {}
    for entry in checkpoint.entries:
        inventory = manager.inventories.get(entry.resource)
        if inventory is None:
            continue
        ids = {device for listed in entry.devices.values() for device in listed}
        mask = sum(1 << index for index, device in enumerate(inventory.ids) if device in ids)
        owned.setdefault(entry.pod_uid, {}).setdefault(entry.container, {})[entry.resource] = mask
    return manager.restore(DeviceState({}, owned, {}))
