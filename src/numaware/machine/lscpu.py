"""Reads what `lscpu` prints, in any of its forms (see `lscpu_output`).

The summary names the CPUs of each NUMA node but counts everything else (cores, sockets, caches), and from
counts nobody can tell which CPUs share a core or a cache. Those are filled in only where a table has a row
per CPU. Where two tables follow each other, as in util-linux's own tests, the first has lscpu's running
numbers, unique in the machine, and tells who shares what; the last has the kernel's ids.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from fractions import Fraction
from math import prod
from operator import methodcaller

from numaware.errors import InputError
from numaware.machine.cpuset import EMPTY, MAX_ID, CpuSet, grouped
from numaware.machine.lscpu_output import Output, Row, parse
from numaware.machine.numa_of_cpus import home_nodes
from numaware.machine.topology import Cache, CacheType, Cpu, Machine, NumaNode, ordered_caches

_NODE_FIELD = re.compile(r"NUMA node(\d{1,9}) CPU\(s\)", re.ASCII)
_CACHE_NAME = re.compile(r"L(\d)([DI]?)", re.ASCII)
_CACHE_TYPES: dict[str, CacheType] = {"D": "Data", "I": "Instruction", "": "Unified"}
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,3})?) ?([KMGT]?)(iB|B)?(?: \((\d{1,6}) instances?\))?", re.ASCII)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_CONTAINERS = ("Cluster(s)", "Socket(s)", "Socket(s) per book", "Book(s) per drawer", "Drawer(s)")


def read(data: bytes, source: str = "lscpu") -> Machine:
    """The machine of an `lscpu` output."""
    output = parse(data, source)
    try:
        machine = _machine(output)
    except ValueError as error:
        raise InputError(source, str(error)) from None
    if not (machine.cpus or machine.numa or machine.architecture):
        problem = (
            "a table of caches alone, which names no CPU"
            if output.cache_rows
            else "nothing that lscpu prints was found"
        )
        raise InputError(source, problem, hint="expected the output of `lscpu`, `lscpu -e` or `lscpu -p`")
    return machine


def _machine(output: Output) -> Machine:
    fields: dict[str, str] = {}
    for name, value in output.fields:
        fields.setdefault(name, value)
    sharing = output.cpu_tables[0] if output.cpu_tables else ()
    ids = {_number(row["CPU"]): row for row in (output.cpu_tables[-1] if output.cpu_tables else ())}
    listed, warnings = _nodes(output.fields, fields)
    homes, contradictions = home_nodes(listed)
    warnings += contradictions
    for cpu, row in ids.items():
        node = _number(row["NODE"]) if row.get("NODE", "").isdecimal() else None
        if node is not None and homes.setdefault(cpu, node) != node:
            warnings.append(
                f"CPU {cpu} is on NUMA node {homes[cpu]} in the summary and on {node} in the table"
            )
    offline = _cpu_list(fields, "Off-line CPU(s)") | CpuSet(
        cpu for cpu, row in ids.items() if row.get("ONLINE", "yes").lower() in {"no", "n"}
    )
    known = _cpu_list(fields, "On-line CPU(s)") | offline | CpuSet(ids) | CpuSet(homes)
    cores = _core_blocks(output.fields)
    single = bool(cores) and all(threads == 1 for threads, _ in cores)
    siblings = _groups(sharing, _core_of)
    cpus = tuple(
        Cpu(
            id=cpu,
            online=cpu not in offline,
            package=_optional(ids.get(cpu, {}).get("SOCKET")),
            cluster=_optional(ids.get(cpu, {}).get("CLUSTER")),
            core=_optional(ids.get(cpu, {}).get("CORE")),
            numa=homes.get(cpu),
            siblings=siblings.get(cpu, CpuSet([cpu]) if single and cpu not in offline else EMPTY),
        )
        for cpu in known
    )
    online = len(known - offline)
    if (count := _optional(fields.get("CPU(s)"))) is not None and known and count not in {online, len(known)}:
        warnings.append(f"CPU(s) says {count}, but {len(known)} CPUs are listed")
    return Machine(
        architecture=_text(fields, "Architecture"),
        model=_text(fields, "Model name"),
        cpus=cpus,
        caches=_caches(sharing, output),
        numa=_numa(listed, homes),
        stated_core_count=_stated_cores(cores, online),
        warnings=tuple(warnings),
    )


def _nodes(ordered: Sequence[tuple[str, str]], fields: dict[str, str]) -> tuple[dict[int, CpuSet], list[str]]:
    """The summary's nodes with their CPUs, and a warning where it announces more or fewer of them."""
    masks = any(name.startswith("On-line CPU(s) mask") for name, _ in ordered)
    listed: dict[int, CpuSet] = {}
    for name, value in ordered:
        if match := _NODE_FIELD.fullmatch(name):
            node = _number(match[1])
            listed[node] = CpuSet.parse_hex(value) if masks or value.startswith("0x") else CpuSet.parse(value)
    count = _optional(fields.get("NUMA node(s)"))
    if count is None or count == len(listed):
        return dict(sorted(listed.items())), []
    return dict(sorted(listed.items())), [f"{count} NUMA nodes are announced and {len(listed)} listed"]


def _numa(listed: dict[int, CpuSet], homes: dict[int, int]) -> tuple[NumaNode, ...]:
    """The nodes of the summary and of the tables; only the summary knows nodes without CPUs."""
    cpus_of = grouped((node, cpu) for cpu, node in homes.items()) | listed
    return tuple(NumaNode(id=node, cpus=cpus, nearest_cpus=cpus) for node, cpus in sorted(cpus_of.items()))


def _groups(rows: Iterable[Row], key: Callable[[Row], Hashable]) -> dict[int, CpuSet]:
    """CPU -> the CPUs of rows with the same key; rows whose key is None belong to no group."""
    keys = {_number(row["CPU"]): group for row in rows if (group := key(row)) is not None}
    sets = grouped((group, cpu) for cpu, group in keys.items())
    return {cpu: sets[group] for cpu, group in keys.items()}


def _core_of(row: Row) -> Hashable:
    """What tells cores apart even in kernel ids, where a core's number starts again in each socket and node."""
    if "CORE" not in row:
        return None
    return tuple(row.get(name) for name in ("DRAWER", "BOOK", "SOCKET", "NODE", "CORE"))


def _caches(rows: Sequence[Row], output: Output) -> tuple[Cache, ...]:
    caches = []
    for name in sorted({name for row in rows for name in row if _CACHE_NAME.fullmatch(name)}):
        groups = set(_groups(rows, methodcaller("get", name)).values())
        size = _one_size(name, groups, output)
        caches += [Cache(int(name[1]), _CACHE_TYPES[name[2:]], cpus, size) for cpus in groups]
    return ordered_caches(caches)


def _one_size(name: str, groups: set[CpuSet], output: Output) -> int | None:
    """The size of one cache of that name, where all of them are alike.

    Old versions print the size of one (`32K`), newer ones the sum of all (`1.5 MiB (48 instances)`), rounded
    to one decimal; a quotient that is not whole comes from rounding and says nothing.
    """
    alike = len({len(cpus) for cpus in groups}) == 1
    models = {value for field, value in output.fields if field == "Model name"}
    if not alike or len(models) > 1:
        return None
    texts = [
        row["ONE-SIZE"] for row in output.cache_rows if row["NAME"].upper() == name and "ONE-SIZE" in row
    ]
    of_one = bool(texts)
    if not texts:
        texts = [value for field, value in output.fields if field.removesuffix(" cache").upper() == name]
    match = _SIZE.fullmatch(texts[0]) if texts else None
    if match is None:
        return None
    number, unit, binary, instances = match.groups()
    if instances and int(instances) != len(groups):
        return None
    count = 1 if of_one or not (instances or binary) else len(groups)
    size = Fraction(number) * _UNITS[unit] / count
    return int(size) if size.denominator == 1 and size % 1024 == 0 else None


def _core_blocks(fields: Iterable[tuple[str, str]]) -> list[tuple[int, int]]:
    """(threads per core, cores) of each kind of processor the summary describes."""
    blocks: list[dict[str, int]] = []
    for name, value in fields:
        if name == "Thread(s) per core":
            blocks.append({})
        if blocks and (number := _optional(value)) is not None:
            blocks[-1].setdefault(name, number)
    counted = []
    for block in blocks:
        cores = block.get("Core(s) per cluster") or block.get("Core(s) per socket")
        if not cores or "Thread(s) per core" not in block:
            return []
        counted.append(
            (block["Thread(s) per core"], cores * prod(block.get(name, 1) for name in _CONTAINERS))
        )
    return counted


def _stated_cores(blocks: Sequence[tuple[int, int]], online: int) -> int | None:
    """The number of cores, if the summary's counts agree with its CPUs: with some offline they need not."""
    if online and sum(threads * cores for threads, cores in blocks) == online:
        return sum(cores for _, cores in blocks)
    return None


def _cpu_list(fields: dict[str, str], name: str) -> CpuSet:
    if f"{name} mask" in fields:
        return CpuSet.parse_hex(fields[f"{name} mask"])
    return CpuSet.parse(fields.get(f"{name} list", ""))


def _text(fields: dict[str, str], name: str) -> str | None:
    value = fields.get(name, "-")
    return None if value in {"", "-"} else value


def _number(text: str) -> int:
    number = int(text) if len(text) <= 9 else MAX_ID + 1
    if number > MAX_ID:
        raise ValueError(f"{text[:20]} is beyond the largest id accepted, {MAX_ID}")
    return number


def _optional(text: str | None) -> int | None:
    """A number where the cell or field holds one; ids of cores and sockets may be large."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 20 else None
