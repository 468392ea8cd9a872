"""What a kubelet's managers have handed out, as text: pod by pod what each container holds, and what is left.

The list is the managers' state and the placement of every pod in one. The kubelet's own files say the same three times
as long, because each of the managers repeats the pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from numaware.kube.topology.machine import DeviceNames
from numaware.machine.cpuset import CpuSet, iter_bits, list_form
from numaware.machine.words import printable
from numaware.twin.cpu.static import CpuState
from numaware.twin.device.manager import DeviceState, Owned
from numaware.twin.kubelet import Kubelet
from numaware.twin.memory.static import Block, MemoryState, NodeMemory
from numaware.twin.node import Node, NodeState
from numaware.workload.pod import Pod

_MOST_NUMBER = 1 << 63
_UINT64 = 1 << 64


def encode(node: Node) -> str:
    """The state of a node as text; equal states give equal bytes."""
    kubelet, state = node.kubelet, node.state
    cpu, memory, device, pods = state.cpu, state.memory, state.device, state.pods
    uids = {*cpu.owned, *memory.blocks, *device.owned, *pods}
    entries = [_entry(node, uid) for uid in uids]
    wire = _State(
        shared=list_form(cpu.shared),
        memory=tuple(
            _NodeMemory(part.assignments, kubelet.layout.node_ids(part.cells), part.free)
            for part in memory.nodes
        ),
        pods=tuple(sorted(entries, key=lambda entry: (entry.namespace, entry.name, entry.uid))),
        pending=cpu.pending,
    )
    return msgspec.json.encode(wire, order="sorted").decode()


def _entry(node: Node, uid: str) -> _Pod:
    kubelet, state = node.kubelet, node.state
    cpu, memory, device, pods = state.cpu, state.memory, state.device, state.pods
    cpus, blocks, devices = cpu.owned.get(uid, {}), memory.blocks.get(uid, {}), device.owned.get(uid, {})
    pod = pods.get(uid)
    return _Pod(
        uid=uid,
        namespace=pod.namespace if pod else "",
        name=pod.name if pod else "",
        containers={
            name: _Container(
                list_form(cpus.get(name, 0)),
                tuple(
                    _Block(kubelet.layout.node_ids(block.nodes), block.kind, block.size)
                    for block in blocks.get(name, ())
                ),
                {
                    resource: [kubelet.devices.inventories[resource].ids[index] for index in iter_bits(mask)]
                    for resource, mask in sorted(devices.get(name, {}).items())
                },
            )
            for name in sorted({*cpus, *blocks, *devices})
        },
        gone=pod is None,
    )


def decode(text: str, kubelet: Kubelet, names: DeviceNames) -> NodeState:
    """The state that a text tells of; ValueError (or msgspec's) if it cannot be that kubelet's."""
    wire = _DECODER.decode(text)
    position = {node: index for index, node in enumerate(kubelet.layout.ids)}
    shared = CpuSet.parse(wire.shared).mask
    cpus: dict[str, dict[str, int]] = {}
    blocks: dict[str, dict[str, tuple[Block, ...]]] = {}
    devices: Owned = {}
    pods: dict[str, Pod] = {}
    taken: dict[str, int] = {}
    for uid, times in Counter(entry.uid for entry in wire.pods).items():
        if times > 1:
            raise ValueError(f"pod {printable(uid, 80)} is listed twice")
    for entry in wire.pods:
        for name, held in entry.containers.items():
            if held.cpus:
                cpus.setdefault(entry.uid, {})[name] = CpuSet.parse(held.cpus).mask
            if held.memory:
                blocks.setdefault(entry.uid, {})[name] = tuple(
                    _block(kubelet, position, block) for block in held.memory
                )
            for resource, ids in sorted(held.devices.items()):
                mask = _device_mask(names, resource, ids)
                devices.setdefault(entry.uid, {}).setdefault(name, {})[resource] = mask
                taken[resource] = taken.get(resource, 0) | mask
        if not entry.gone:
            pods[entry.uid] = Pod(entry.name or entry.uid, entry.namespace, entry.uid)
    _check_cpus(kubelet, shared, cpus)
    return NodeState(
        CpuState(shared, cpus, pending=wire.pending),
        MemoryState(_memory(kubelet, position, wire.memory), blocks),
        DeviceState(devices, devices, taken),
        pods,
    )


def _check_cpus(kubelet: Kubelet, shared: int, owned: Mapping[str, Mapping[str, int]]) -> None:
    manager = kubelet.cpus
    taken = 0
    for containers in owned.values():
        for mask in containers.values():
            taken |= mask
    if manager is None and (shared or taken):
        raise ValueError("CPUs are handed out although there is no CPU manager")
    if (shared | taken) & ~kubelet.layout.all_cpus:
        raise ValueError(
            f"CPUs {list_form((shared | taken) & ~kubelet.layout.all_cpus)} are not of this machine"
        )
    if shared & taken:
        raise ValueError(f"CPUs {list_form(shared & taken)} are shared and owned at once")


def _memory(
    kubelet: Kubelet, position: Mapping[int, int], wire: tuple[_NodeMemory, ...]
) -> tuple[NodeMemory, ...]:
    manager = kubelet.memory
    if len(wire) != (len(kubelet.layout.ids) if manager else 0):
        raise ValueError("memory is not listed for each NUMA node")
    kinds = len(manager.kinds) if manager else 0
    for part in wire:
        if len(part.free) != kinds or not all(0 <= size < _UINT64 for size in part.free):
            raise ValueError("free memory is not listed for each kind")
        if not 0 <= part.assignments < _MOST_NUMBER or not part.groups:
            raise ValueError("a NUMA node's memory belongs to no group")
    return tuple(NodeMemory(part.assignments, _nodes(position, part.groups), part.free) for part in wire)


def _block(kubelet: Kubelet, position: Mapping[int, int], wire: _Block) -> Block:
    if kubelet.memory is None or wire.kind not in kubelet.memory.kinds:
        raise ValueError(f"a container holds {printable(wire.kind, 80)}, which no manager hands out")
    if not 0 <= wire.size < _UINT64 or not wire.numa:
        raise ValueError(f"a container holds {wire.size} bytes on {len(wire.numa)} NUMA nodes")
    return Block(_nodes(position, wire.numa), wire.kind, wire.size)


def _nodes(position: Mapping[int, int], ids: Iterable[int]) -> int:
    mask = 0
    for number in ids:
        if number not in position:
            raise ValueError(f"NUMA node {number} is not of this machine")
        mask |= 1 << position[number]
    return mask


def _device_mask(names: DeviceNames, resource: str, ids: Iterable[str]) -> int:
    mask = 0
    for name in ids:
        index = names.get(resource, {}).get(name)
        if index is None:
            raise ValueError(
                f"device {printable(name, 80)} of {printable(resource, 80)} is not of this machine"
            )
        mask |= 1 << index
    return mask


# The wire


class _Wire(msgspec.Struct, rename="camel", omit_defaults=True):
    """Part of the text: camelCase keys, unknown ones passed over, what goes without saying left out."""


class _Block(msgspec.Struct, array_like=True):
    numa: tuple[int, ...]
    kind: str
    size: int


class _Container(_Wire):
    cpus: str = ""
    memory: tuple[_Block, ...] = ()
    devices: dict[str, list[str]] = {}


class _Pod(_Wire):
    uid: str
    namespace: str = ""
    name: str = ""
    containers: dict[str, _Container] = {}
    gone: bool = False


class _NodeMemory(msgspec.Struct, array_like=True):
    assignments: int
    groups: tuple[int, ...]
    free: tuple[int, ...]


class _State(_Wire):
    shared: str = ""
    memory: tuple[_NodeMemory, ...] = ()
    pods: tuple[_Pod, ...] = ()
    pending: str = ""


_DECODER = msgspec.json.Decoder(_State)
