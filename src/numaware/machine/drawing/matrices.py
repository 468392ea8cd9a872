"""Distances between NUMA nodes and links between devices, as matrices that can be condensed without loss of meaning.

A table of 64 x 64 distances fits nowhere, but large machines are regular. Two nodes (or devices) are *twins* if
swapping them would leave the table as it is; twins share a row and a column. Where even that is too wide (rings, meshes), the
last form counts, for each kind of node, how many others lie at each distance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import TypeVar

from numaware.machine.cpuset import CpuSet
from numaware.machine.drawing.box import Cell, Matrix
from numaware.machine.topology import Machine
from numaware.machine.words import NOTHING, TIMES, count, id_list, printable

# Beyond these sizes the wider forms would not be shown anyway, and looking for twins is cubic work.
_FULL_LIMIT = 16
_TWINS_LIMIT = 128
_LINKS_LIMIT = 64
_UNREACHABLE = 255

_LINK_HEAT = {"PIX": 1, "PXB": 2, "PHB": 2, "NODE": 3, "SYS": 4}
_LINK_WORDS = {
    "PIX": "one PCIe bridge",
    "PXB": "several PCIe bridges",
    "PHB": "one PCIe host bridge",
    "NODE": "same NUMA node",
    "SYS": "across NUMA nodes",
}

_Table = dict[int, dict[int, int]]
_Key = TypeVar("_Key", int, str)


def distances(machine: Machine) -> tuple[Matrix, ...]:
    """The distance table, from full to most condensed; nothing where there is nothing to compare."""
    table: _Table = {node.id: dict(node.distances) for node in machine.numa if node.distances}
    ids = sorted(table)
    if len(ids) < 2:
        return ()
    forms = []
    if len(ids) <= _FULL_LIMIT:
        forms.append(_by_group(table, [[node] for node in ids]))
    if len(ids) <= _TWINS_LIMIT:
        groups = _twins(table, ids)
        if len(groups) < len(ids):
            forms.append(_by_group(table, groups))
    forms.append(_by_count(table, ids))
    return tuple(forms)


def links(machine: Machine) -> tuple[Matrix, ...]:
    """How close named devices are to one another, in full and with twins together."""
    table: dict[str, dict[str, str]] = {}
    for link in machine.links:
        table.setdefault(link.a, {})[link.b] = link.type
        table.setdefault(link.b, {})[link.a] = link.type
    if not 0 < len(table) <= _LINKS_LIMIT:
        return ()
    kinds = {kind for row in table.values() for kind in row.values()}
    said = [f"{kind}: {_LINK_WORDS[kind]}" for kind in _LINK_WORDS if kind in kinds]
    if any(_is_nvlink(kind) for kind in kinds):
        said.insert(0, "NV#: that many NVLinks")
    singles = [[name] for name in table]
    twins = _twins(table, list(table))
    forms = [singles] if len(twins) == len(singles) else [singles, twins]
    return tuple(_links_by_group(table, groups, "; ".join(said)) for groups in forms)


def _links_by_group(table: Mapping[str, Mapping[str, str]], groups: list[list[str]], caption: str) -> Matrix:
    def cell(a: list[str], b: list[str]) -> Cell:
        if a is b and len(a) == 1:
            return Cell("·")
        kind = table[a[0]].get(b[-1])
        if kind is None:
            return Cell(NOTHING)
        return Cell(printable(kind, 8), 0 if _is_nvlink(kind) else _LINK_HEAT.get(kind))

    names = [_names(group) for group in groups]
    rows = tuple((name, tuple(cell(a, b) for b in groups)) for name, a in zip(names, groups, strict=True))
    return Matrix("Links", tuple(names), rows, caption)


def _names(group: list[str]) -> str:
    """`GPU0-3` for names that differ only in their number, else all of them."""
    stems = {name.rstrip("0123456789") for name in group}
    stem = min(stems)
    numbers = [name.removeprefix(stem) for name in group]
    if (
        len(group) > 1
        and len(stems) == 1
        and all(0 < len(number) < 10 and number.isascii() for number in numbers)
    ):
        return printable(stem, 20) + id_list(int(number) for number in numbers)
    return ", ".join(printable(name, 20) for name in group)


def heat(distance: int, local: int) -> int:
    """How far, in five steps that mean the same on every machine: a ratio to the local distance."""
    if distance <= local:
        return 0
    return next((step for step, tenths in ((1, 16), (2, 24), (3, 35)) if distance * 10 <= local * tenths), 4)


def _is_nvlink(kind: str) -> bool:
    return kind.startswith("NV") and kind[2:].isdecimal()


def _by_group(table: _Table, groups: list[list[int]]) -> Matrix:
    """One row and column for each group; a group of several shows `local/within` on the diagonal."""
    local = _local(table)

    def cell(a: list[int], b: list[int]) -> Cell:
        if a is not b:
            return _distance(table[a[0]].get(b[0]), local)
        own, within = table[a[0]].get(a[0]), table[a[0]].get(a[1]) if len(a) > 1 else None
        if len(a) == 1:
            return _distance(own, local)
        return Cell(f"{_number(own)}/{_number(within)}", None if within is None else heat(within, local))

    names = [str(CpuSet(group)) for group in groups]
    rows = tuple(
        (f"NUMA {name}", tuple(cell(a, b) for b in groups)) for name, a in zip(names, groups, strict=True)
    )
    grouped = len(groups) < len(table)
    caption = _caption(table, local)
    if grouped:
        caption += "; nodes at equal distances share a row, and 10/16 reads: 10 to itself, 16 to the others of its row"
    return Matrix("Distances", tuple(names), rows, caption)


def _by_count(table: _Table, ids: list[int]) -> Matrix:
    """For each kind of node, how many nodes lie at each distance."""
    local = _local(table)
    profiles: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for node in ids:
        profiles.setdefault(tuple(sorted(Counter(table[node].values()).items())), []).append(node)
    values = sorted({distance for profile in profiles for distance, _ in profile})
    # A broken table may hold hundreds of values; the nearest and the farthest are what people look for.
    shown = values if len(values) <= 10 else values[:5] + values[-4:]
    rows = tuple(
        (
            f"NUMA {CpuSet(nodes)}",
            tuple(
                Cell(str(number), heat(value, local)) if (number := dict(profile).get(value)) else Cell("·")
                for value in shown
            ),
        )
        for profile, nodes in list(profiles.items())[:16]
    )
    caption = _caption(table, local) + "; each cell counts the nodes at that distance"
    if len(shown) < len(values) or len(rows) < len(profiles):
        caption += f" (shortened: {count(len(profiles), 'kind')} of node, {count(len(values), 'distance')})"
    return Matrix("Nodes at each distance", tuple(str(value) for value in shown), rows, caption)


def _twins(table: Mapping[_Key, Mapping[_Key, Hashable]], ids: list[_Key]) -> list[list[_Key]]:
    """Members grouped by who can be swapped with whom (swaps that change nothing compose, so one speaks for all)."""
    groups: list[list[_Key]] = []
    for node in ids:
        for group in groups:
            if _are_twins(table, group[0], node, ids):
                group.append(node)
                break
        else:
            groups.append([node])
    return groups


def _are_twins(table: Mapping[_Key, Mapping[_Key, Hashable]], a: _Key, b: _Key, ids: list[_Key]) -> bool:
    row_a, row_b = table[a], table[b]
    return (
        row_a.get(a) == row_b.get(b)
        and row_a.get(b) == row_b.get(a)
        and all(
            row_a.get(other) == row_b.get(other) and table[other].get(a) == table[other].get(b)
            for other in ids
            if other not in (a, b)
        )
    )


def _local(table: _Table) -> int:
    return max(1, min((row[node] for node, row in table.items() if node in row), default=10))


def _distance(value: int | None, local: int) -> Cell:
    return Cell(NOTHING) if value is None else Cell(str(value), heat(value, local))


def _number(value: int | None) -> str:
    return NOTHING if value is None else str(value)


def _caption(table: _Table, local: int) -> str:
    farthest = max((distance for row in table.values() for distance in row.values()), default=local)
    if farthest == _UNREACHABLE:
        return f"{local} is local, 255 cannot be reached"
    tenths = (farthest * 10 + local // 2) // local
    if tenths <= 10:
        return f"all nodes at distance {local}"
    times = f"{tenths // 10}.{tenths % 10}" if tenths % 10 else str(tenths // 10)
    return f"{local} is local, {farthest} is {times} {TIMES} as far, by the firmware's table"
