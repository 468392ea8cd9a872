"""`memory_manager_state`: what each NUMA node has of each kind of memory, and which container holds which blocks.

Mirrors pkg/kubelet/cm/memorymanager/state/checkpoint.go (the file exists since 1.21). Layouts: v1; v2 (1.36 behind the
PodLevelResourceManagers gate) adds blocks held by a whole pod; v3 (1.37) is v1 plus a `data` string, the same
content once more with its own checksum, which is the one that counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from numaware.twin.state import document
from numaware.twin.state.checksum import Stamp, first_match, fnv1a
from numaware.twin.state.errors import checked
from numaware.twin.state.golang import Unsigned, dump_list, dump_map, json_text, wrap

FILE = "memory_manager_state"


class MemoryBlock(msgspec.Struct, frozen=True, rename="camel"):
    """Bytes of one kind of memory that a container holds on a group of NUMA nodes."""

    numa_affinity: tuple[int, ...] = ()
    type: str = ""
    size: Unsigned = 0


class MemoryTable(msgspec.Struct, frozen=True, rename="camel"):
    """One kind of memory of one NUMA node, in bytes."""

    total: Unsigned = 0
    system_reserved: Unsigned = 0
    allocatable: Unsigned = 0
    reserved: Unsigned = 0
    free: Unsigned = 0


class NodeEntry(msgspec.Struct, frozen=True, rename="camel"):
    """One NUMA node; `cells` are the nodes it currently shares allocations with, itself included."""

    number_of_assignments: int = 0
    memory_map: Mapping[str, MemoryTable] = {}
    cells: tuple[int, ...] = ()


MachineState = Mapping[int, NodeEntry]
Entries = Mapping[str, Mapping[str, Sequence[MemoryBlock]]]


class MemoryCheckpoint(msgspec.Struct, frozen=True):
    """One file: blocks by pod uid and container name; `pods` holds blocks that belong to a pod as a whole."""

    policy: str
    stamp: Stamp
    machine_state: dict[int, NodeEntry] = {}
    entries: dict[str, dict[str, tuple[MemoryBlock, ...]]] = {}
    pods: dict[str, tuple[MemoryBlock, ...]] = {}


def encode(
    policy: str,
    machine_state: MachineState,
    entries: Entries,
    *,
    pods: Mapping[str, Sequence[MemoryBlock]] | None = None,
    wrapped: bool = False,
) -> str:
    """The file a kubelet of 1.21 and later writes, blocks of a container sorted (a kubelet leaves their order to chance).

    `pods` where its gate PodLevelResourceManagers is open; `wrapped` since 1.37.
    """
    blocks = {
        uid: {name: sorted(held, key=_block_order) for name, held in containers.items()}
        for uid, containers in entries.items()
    }
    nodes = {str(number): node for number, node in machine_state.items()}
    whole = {uid: tuple(sorted(held, key=_block_order)) for uid, held in (pods or {}).items()}
    held = {uid: _PodBlocks(blocks) for uid, blocks in whole.items()} if whole else msgspec.UNSET
    content = _File(policy, nodes, blocks or msgspec.UNSET, held)
    assignments = _dump_entries(blocks)
    if pods is not None and not wrapped:
        assignments += f" {_dump_pods(whole)}"
    content.checksum = fnv1a(_dump(policy, machine_state, assignments))
    return wrap(content) if wrapped else json_text(content)


def decode(data: str | bytes, source: str = FILE) -> MemoryCheckpoint:
    """Read a file as a starting kubelet does: the content, or an error when the checksum is wrong."""
    checkpoint = parse(document.read(data, source).fields, source)
    checked(source, checkpoint.stamp)
    return checkpoint


def parse(fields: Mapping[str, Any], source: str = FILE) -> MemoryCheckpoint:
    """Read the content without judging its checksum; `stamp` says how that turned out."""
    return document.parse(fields, source, FILE, parse_as, wrapped="v3")


class _PodBlocks(msgspec.Struct):
    blocks: tuple[MemoryBlock, ...] = msgspec.field(name="memoryBlocks", default=())


class _File(msgspec.Struct, rename="camel"):
    policy_name: str
    machine_state: Mapping[str, NodeEntry]
    entries: Entries | msgspec.UnsetType
    pod_entries: Mapping[str, _PodBlocks] | msgspec.UnsetType
    checksum: int | msgspec.UnsetType = msgspec.UNSET
    data: str | msgspec.UnsetType = msgspec.UNSET
    data_checksum: int | msgspec.UnsetType = msgspec.UNSET


class _Content(msgspec.Struct):
    """The fields as they stand in the file, keys folded to lower case."""

    policyname: str = ""
    machinestate: dict[int, NodeEntry] = {}
    entries: dict[str, dict[str, tuple[MemoryBlock, ...]]] = {}
    podentries: dict[str, _PodBlocks] = {}
    checksum: Unsigned | None = None


def parse_as(
    fields: Mapping[str, Any], forms: Sequence[str] = (), optional: Collection[str] = ()
) -> MemoryCheckpoint:
    """The outer fields as layout v1 or v2.

    `forms` are the layouts to try, in that order: a reader of v1 looks past what a whole pod holds. Without any, those the
    content can be. A checksum need not be there for those in `optional`.
    """
    content = msgspec.convert(fields, _Content, strict=False)
    policy, state, entries = content.policyname, content.machinestate, content.entries
    pods = {uid: pod.blocks for uid, pod in content.podentries.items()}
    listed = _dump_entries(entries)
    dumps = {} if pods and not forms else {"v1": _dump(policy, state, listed)}
    dumps["v2"] = _dump(policy, state, f"{listed} {_dump_pods(pods)}")
    stamp = first_match(content.checksum, {form: dumps[form] for form in forms or dumps}, optional)
    return MemoryCheckpoint(policy, stamp, state, entries, pods if stamp.form == "v2" or not forms else {})


def _block_order(block: MemoryBlock) -> tuple[str, tuple[int, ...], int]:
    return block.type, block.numa_affinity, block.size


def _dump(policy: str, state: MachineState, assignments: str) -> str:
    nodes = dump_map({number: _dump_node(node) for number, node in state.items()})
    return (
        f"(*state.MemoryManagerCheckpoint){{PolicyName:(string){policy} MachineState:(state.NUMANodeMap){nodes}"
        f" {assignments} Checksum:(checksum.Checksum)0}}"
    )


def _dump_pods(pods: Mapping[str, Sequence[MemoryBlock]]) -> str:
    blocks = {uid: f"{{MemoryBlocks:([]state.Block){_dump_blocks(held)}}}" for uid, held in pods.items()}
    return f"PodEntries:(state.PodMemoryAssignments){dump_map(blocks)}"


def _dump_node(node: NodeEntry) -> str:
    tables = dump_map({kind: _dump_table(table) for kind, table in node.memory_map.items()})
    cells = dump_list(map(str, node.cells))
    return (
        f"<*>{{NumberOfAssignments:(int){node.number_of_assignments}"
        f" MemoryMap:(map[v1.ResourceName]*state.MemoryTable){tables} Cells:([]int){cells}}}"
    )


def _dump_table(table: MemoryTable) -> str:
    return (
        f"<*>{{TotalMemSize:(uint64){table.total} SystemReserved:(uint64){table.system_reserved}"
        f" Allocatable:(uint64){table.allocatable} Reserved:(uint64){table.reserved} Free:(uint64){table.free}}}"
    )


def _dump_entries(entries: Entries) -> str:
    pods = {
        uid: dump_map({name: _dump_blocks(held) for name, held in containers.items()})
        for uid, containers in entries.items()
    }
    return f"Entries:(state.ContainerMemoryAssignments){dump_map(pods)}"


def _dump_blocks(blocks: Sequence[MemoryBlock]) -> str:
    return dump_list(
        f"{{NUMAAffinity:([]int){dump_list(map(str, block.numa_affinity))}"
        f" Type:(v1.ResourceName){block.type} Size:(uint64){block.size}}}"
        for block in blocks
    )
