"""Reads what `numactl --hardware` prints: the NUMA nodes with their CPUs, memory and distances.

The output comes from mails and chat windows as often as from a file, so that lines around it are ignored, blanks
do not matter, lines may be quoted (`> `, `# `) and long CPU lists wrapped. What looks cut off becomes a warning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from numaware.errors import InputError
from numaware.machine.cpuset import MAX_ID, CpuSet
from numaware.machine.numa_of_cpus import home_nodes, near_by_distance
from numaware.machine.textfile import read_text
from numaware.machine.topology import Cpu, Machine, NumaNode

_QUOTES = "># \t"
_AVAILABLE = re.compile(r"available\s*:\s*(\d{1,9})\s+nodes?\b\s*(?:\(\s*([\d,\s-]*)\))?", re.ASCII)
_FACT = re.compile(r"node\s+(\d{1,9})\s+(cpus|size)\s*:(.*)", re.ASCII)
_MEGABYTES = re.compile(r"\s*(\d{1,12})\s*MB\b", re.ASCII)
_DISTANCE_HEADER = re.compile(r"nodes?((?:\s+\d{1,9})+)\s*", re.ASCII)
_DISTANCE_ROW = re.compile(r"(\d{1,9})\s*:((?:\s+\d{1,9})*)(?!\S)", re.ASCII)
_NUMBERS = re.compile(r"\d{1,9}(?:\s+\d{1,9})*\s*", re.ASCII)


class _Output:
    """The facts of the output in the order they appear, before they are checked against each other."""

    def __init__(self) -> None:
        self.announced: CpuSet | None = None
        self.announced_count: int | None = None
        self.cpus: dict[int, CpuSet] = {}
        self.memory: dict[int, int] = {}
        self.columns: list[int] = []
        self.distances: dict[int, list[int]] = {}


def read(data: bytes, source: str = "numactl --hardware") -> Machine:
    """The NUMA nodes of a `numactl --hardware` output."""
    output = _Output()
    try:
        _scan(read_text(data, source).splitlines(), output)
        return _machine(output, source)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(source, str(error)) from None


def _scan(lines: Sequence[str], output: _Output) -> None:
    wrapped: int | None = None
    for written in lines:
        line = written.lstrip(_QUOTES)
        if wrapped is not None and _NUMBERS.fullmatch(line):
            output.cpus[wrapped] |= CpuSet(map(int, line.split()))
            continue
        wrapped = None
        if match := _FACT.match(line):
            node = _node_id(match[1])
            if match[2] == "cpus":
                # Other words (an old numactl's remarks) carry no CPU.
                output.cpus[node] = CpuSet(int(word) for word in match[3].split() if _NUMBERS.fullmatch(word))
                wrapped = node
            else:
                output.cpus.setdefault(node, CpuSet())
                if size := _MEGABYTES.match(match[3]):
                    output.memory[node] = int(size[1]) << 20
        elif match := _AVAILABLE.match(line):
            output.announced_count = int(match[1])
            if match[2] is not None:
                output.announced = CpuSet.parse(match[2])
        elif match := _DISTANCE_HEADER.fullmatch(line):
            output.columns = [_node_id(word) for word in match[1].split()]
        elif (match := _DISTANCE_ROW.match(line)) and int(match[1]) in output.columns:
            output.distances[int(match[1])] = [int(word) for word in match[2].split()]


def _machine(output: _Output, source: str) -> Machine:
    if not (output.cpus or output.distances):
        raise InputError(source, "no NUMA node found", hint="expected the output of `numactl --hardware`")
    ids = CpuSet([*output.cpus, *output.distances]) | (output.announced or CpuSet())
    homes, warnings = home_nodes(dict(sorted(output.cpus.items())))
    warnings += _gaps(output, ids)
    nodes = []
    for node in ids:
        cpus = output.cpus.get(node, CpuSet())
        row = dict(zip(output.columns, output.distances.get(node, ()), strict=False))
        nodes.append(
            NumaNode(
                id=node,
                cpus=cpus,
                memory_bytes=output.memory.get(node),
                distances=tuple(sorted(row.items())),
                nearest_cpus=cpus or near_by_distance(node, row, output.cpus),
            )
        )
    return Machine(
        cpus=tuple(Cpu(id=cpu, numa=node) for cpu, node in homes.items()),
        numa=tuple(nodes),
        warnings=tuple(warnings),
    )


def _gaps(output: _Output, ids: CpuSet) -> list[str]:
    """What a complete output would have: a cut-off paste should not pass for a small machine."""
    gaps = []
    missing = ids - CpuSet(output.cpus)
    if missing:
        gaps.append(f"NUMA nodes {missing} are named but not described; the output looks cut off")
    elif output.announced_count is not None and output.announced_count != len(ids):
        gaps.append(f"{output.announced_count} NUMA nodes are announced and {len(ids)} described")
    if output.columns:
        short = [
            node
            for node in CpuSet(output.columns)
            if len(output.distances.get(node, ())) != len(output.columns)
        ]
        if short:
            gaps.append(f"the distance rows of NUMA nodes {CpuSet(short)} are missing or incomplete")
    return gaps


def _node_id(text: str) -> int:
    number = int(text)
    if number > MAX_ID:
        raise ValueError(f"NUMA node {number} is beyond the largest id accepted, {MAX_ID}")
    return number
