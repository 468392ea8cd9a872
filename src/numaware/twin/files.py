"""A node's state as the three files the kubelet keeps under its root directory.

The formats and checksums live in `state/`; here the managers' masks become their ids, lists and tables.
"""

from __future__ import annotations

from numaware.machine.cpuset import iter_bits, list_form
from numaware.twin.kubelet import Kubelet
from numaware.twin.memory.static import MemoryState, StaticMemory
from numaware.twin.node import NodeState
from numaware.twin.state import cpu as cpu_file
from numaware.twin.state import device as device_file
from numaware.twin.state import memory as memory_file


def state_files(kubelet: Kubelet, state: NodeState) -> dict[str, str]:
    """File name -> content, for the files this kubelet would have written."""
    files = {cpu_file.FILE: _cpu(kubelet, state)}
    if kubelet.rules.memory_manager:
        files[memory_file.FILE] = _memory(kubelet.memory, state.memory)
    if kubelet.hardware.resources:
        files[device_file.FILE] = _device(kubelet, state)
    return files


def devices_by_node(kubelet: Kubelet, resource: str, devices: int) -> dict[int, list[str]]:
    """Device ids under each NUMA id they touch, -1 for those without topology, as the kubelet stores them."""
    inventory = kubelet.devices.inventories[resource]
    apart = -1 if kubelet.rules.no_topology_apart else 0
    found: dict[int, list[str]] = {}
    for index in iter_bits(devices):
        for node in kubelet.layout.node_ids(inventory.nodes[index]) or (apart,):
            found.setdefault(node, []).append(inventory.ids[index])
    return dict(sorted(found.items()))


def _cpu(kubelet: Kubelet, state: NodeState) -> str:
    if kubelet.cpus is None:
        return cpu_file.encode("none", "", {})
    owned = {
        uid: {container: list_form(cpus) for container, cpus in containers.items()}
        for uid, containers in state.cpu.owned.items()
    }
    return cpu_file.encode("static", list_form(state.cpu.shared), owned)


def _memory(manager: StaticMemory | None, state: MemoryState) -> str:
    if manager is None:
        return memory_file.encode("None", {}, {})
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
    entries = {
        uid: {
            container: [memory_file.MemoryBlock(ids(block.nodes), block.kind, block.size) for block in blocks]
            for container, blocks in containers.items()
        }
        for uid, containers in state.blocks.items()
    }
    return memory_file.encode("Static", nodes, entries)


def _device(kubelet: Kubelet, state: NodeState) -> str:
    entries = []
    for uid, containers in state.device.file.items():
        for container, resources in containers.items():
            for resource, devices in resources.items():
                by_node = devices_by_node(kubelet, resource, devices)
                ids = {device for listed in by_node.values() for device in listed}
                entries.append(
                    device_file.DeviceEntry(
                        uid, container, resource, by_node, device_file.alloc_response(ids)
                    )
                )
    registered = {
        name: [inventory.ids[index] for index in iter_bits(inventory.healthy)]
        for name, inventory in kubelet.devices.inventories.items()
    }
    return device_file.encode(entries, registered)
