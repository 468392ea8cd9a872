"""What a state file says, as tables for a person and as facts for a program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from numaware.machine.cpuset import CpuSet
from numaware.machine.words import count, printable, size
from numaware.twin.state import alloc_response
from numaware.twin.state.alloc_response import AllocResponse
from numaware.twin.state.cpu import CpuCheckpoint
from numaware.twin.state.device import DeviceCheckpoint, DeviceEntry
from numaware.twin.state.memory import MemoryBlock, MemoryCheckpoint
from numaware.twin.state.verify import Checkpoint

WHOLE_POD = "(whole pod)"
UNKNOWN_POD = "(container id)"


class Table(msgspec.Struct, frozen=True):
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class View(msgspec.Struct, frozen=True):
    """One file: a sentence, tables without empty ones, and the same content for `--json`."""

    headline: str
    tables: tuple[Table, ...]
    facts: dict[str, Any]


def view(checkpoint: Checkpoint) -> View:
    """The view of any of the three files."""
    match checkpoint:
        case CpuCheckpoint():
            return _cpu(checkpoint)
        case MemoryCheckpoint():
            return _memory(checkpoint)
        case DeviceCheckpoint():
            return _device(checkpoint)


def _cpu(checkpoint: CpuCheckpoint) -> View:
    holders = [
        (uid, name, cpus)
        for uid, held in sorted(checkpoint.entries.items())
        for name, cpus in sorted(held.items())
    ]
    holders += [(uid, WHOLE_POD, cpus) for uid, cpus in sorted(checkpoint.pods.items())]
    holders += [(UNKNOWN_POD, name, cpus) for name, cpus in sorted(checkpoint.by_container_id.items())]
    pool = checkpoint.default_cpus
    return View(
        f"CPU manager policy {printable(checkpoint.policy)}; shared pool: {_pool(pool)}",
        _tables(
            _table(
                ("POD UID", "CONTAINER", "COUNT", "CPUS"),
                ((uid, name, _cpu_count(cpus), cpus) for uid, name, cpus in holders),
            )
        ),
        {
            "policy": checkpoint.policy,
            "sharedPool": pool,
            "containers": [{"podUid": uid, "container": name, "cpus": cpus} for uid, name, cpus in holders],
        },
    )


def _memory(checkpoint: MemoryCheckpoint) -> View:
    tables = [
        (number, kind, node, node.memory_map[kind])
        for number, node in sorted(checkpoint.machine_state.items())
        for kind in sorted(node.memory_map)
    ]
    holders: list[tuple[str, str, MemoryBlock]] = [
        (uid, name, block)
        for uid, held in sorted(checkpoint.entries.items())
        for name, blocks in sorted(held.items())
        for block in blocks
    ]
    holders += [
        (uid, WHOLE_POD, block) for uid, blocks in sorted(checkpoint.pods.items()) for block in blocks
    ]
    return View(
        f"memory manager policy {printable(checkpoint.policy)}; {count(len(checkpoint.machine_state), 'NUMA node')}",
        _tables(
            _table(
                ("NUMA", "TYPE", "TOTAL", "SYSTEM", "ALLOCATABLE", "RESERVED", "FREE", "GROUP"),
                (
                    (str(number), kind, *map(size, msgspec.structs.astuple(table)), _nodes(node.cells))
                    for number, kind, node, table in tables
                ),
            ),
            _table(
                ("POD UID", "CONTAINER", "TYPE", "SIZE", "NUMA"),
                (
                    (uid, name, block.type, size(block.size), _nodes(block.numa_affinity))
                    for uid, name, block in holders
                ),
            ),
        ),
        {
            "policy": checkpoint.policy,
            "nodes": [
                {"numa": number, "type": kind, **msgspec.to_builtins(table), "group": list(node.cells)}
                for number, kind, node, table in tables
            ],
            "containers": [
                {"podUid": uid, "container": name, **msgspec.to_builtins(block)}
                for uid, name, block in holders
            ],
        },
    )


def _device(checkpoint: DeviceCheckpoint) -> View:
    # The old layout did not record NUMA nodes; saying "node 0", as a kubelet that reads it assumes, would mislead.
    recorded = checkpoint.stamp.form != "v1"
    held = [
        (entry, node if recorded else None, sorted(ids))
        for entry in _in_order(checkpoint)
        for node, ids in sorted(entry.devices.items())
    ]
    answers = [(entry, _answer(entry)) for entry in _in_order(checkpoint) if entry.alloc_response]
    registered = sorted(checkpoint.registered.items())
    return View(
        f"device manager; {count(len(registered), 'resource')} registered",
        _tables(
            _table(
                ("POD UID", "CONTAINER", "RESOURCE", "NUMA", "DEVICES"),
                (
                    (entry.pod_uid, entry.container, entry.resource, _node(node), ", ".join(ids))
                    for entry, node, ids in held
                ),
            ),
            _table(
                ("POD UID", "CONTAINER", "RESOURCE", "THE PLUGIN GAVE", "WHAT"),
                (
                    (entry.pod_uid, entry.container, entry.resource, *line)
                    for entry, answer in answers
                    for line in _answer_lines(answer)
                ),
            ),
            _table(
                ("RESOURCE", "HEALTHY", "DEVICES"),
                ((name, str(len(ids)), ", ".join(sorted(ids))) for name, ids in registered),
            ),
        ),
        {
            "containers": [
                {
                    "podUid": entry.pod_uid,
                    "container": entry.container,
                    "resource": entry.resource,
                    "numa": node if node != -1 else None,
                    "devices": ids,
                }
                for entry, node, ids in held
            ],
            "answers": [
                {
                    "podUid": entry.pod_uid,
                    "container": entry.container,
                    "resource": entry.resource,
                    **({"problem": answer} if isinstance(answer, str) else msgspec.to_builtins(answer)),
                }
                for entry, answer in answers
            ],
            "registered": {name: sorted(ids) for name, ids in registered},
        },
    )


def _in_order(checkpoint: DeviceCheckpoint) -> list[DeviceEntry]:
    return sorted(checkpoint.entries, key=attrgetter("pod_uid", "container", "resource"))


def _answer(entry: DeviceEntry) -> AllocResponse | str:
    """What the plugin told the runtime to do, or why that cannot be read."""
    try:
        return alloc_response.decode(entry.alloc_response)
    except ValueError as error:
        return f"no answer of a plugin: {printable(str(error), 200)}"


def _answer_lines(answer: AllocResponse | str) -> list[tuple[str, str]]:
    """Each thing that was given, with its kind before it."""
    if isinstance(answer, str):
        return [("unreadable", answer)]
    lines = [("variable", f"{name}={value}") for name, value in sorted(answer.envs.items())]
    lines += [
        ("device", f"{_place(node.host_path, node.container_path)} ({node.permissions})")
        for node in answer.devices
    ]
    lines += [
        ("mount", f"{_place(one.host_path, one.container_path)}{' (read-only)' if one.read_only else ''}")
        for one in answer.mounts
    ]
    lines += [("annotation", f"{name}={value}") for name, value in sorted(answer.annotations.items())]
    lines += [("CDI device", name) for name in answer.cdi_devices]
    return lines or [("nothing", "")]


def _place(host: str, container: str) -> str:
    return host if host == container else f"{host} as {container}"


def _table(columns: tuple[str, ...], rows: Iterable[Sequence[str]]) -> Table:
    return Table(columns, tuple(tuple(printable(cell, 10_000) for cell in row) for row in rows))


def _tables(*tables: Table) -> tuple[Table, ...]:
    return tuple(table for table in tables if table.rows)


def _pool(cpus: str) -> str:
    return f"{printable(cpus, 10_000)} ({_cpu_count(cpus)} CPUs)" if cpus else "none recorded"


def _cpu_count(cpus: str) -> str:
    """How many CPUs the list names; a list that is none is shown, not counted."""
    try:
        return str(len(CpuSet.parse(cpus)))
    except ValueError:
        return "?"


def _nodes(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def _node(number: int | None) -> str:
    return "unknown" if number is None else "none" if number == -1 else str(number)
