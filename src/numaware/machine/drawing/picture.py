"""A machine put into words and boxes: `draw` is where a `Machine` becomes something to look at.

The order is the order of questions: what is it, where are the CPUs and the memory, what hangs where, how far
apart is it, and what is odd about it.
"""

from __future__ import annotations

from collections.abc import Sequence

from numaware.machine.codec import page_size_name
from numaware.machine.cpuset import CpuSet
from numaware.machine.drawing import devices, matrices
from numaware.machine.drawing.box import Box, Core, Picture
from numaware.machine.drawing.lines import GLUE
from numaware.machine.drawing.parts import Part, Survey
from numaware.machine.topology import Cache, HugePages, Machine, NumaNode
from numaware.machine.words import MEMORY_KINDS, TIMES, count, cpu_list, id_list, printable, rounded, size

# With more NUMA nodes than this, alike ones are shown once: eight is where people stop comparing boxes by eye.
UNFOLDED_NODES = 8


def draw(machine: Machine, *, cells: bool = False) -> Picture:
    """The picture of a machine; with `cells` every cache keeps its own box, so that single cores can be drawn."""
    hardware = devices.hardware(machine)
    survey = Survey(machine, hardware, fold_caches=not cells, fold_nodes=len(machine.numa) > UNFOLDED_NODES)
    return Picture(
        title=_title(machine),
        summary=_summary(machine),
        boxes=tuple(
            _package(part, machine) if part.role == "package" else _node(part, machine)
            for part in survey.top()
        ),
        unplaced=devices.boxes(tuple(item for item in hardware if item.numa is None), machine, None),
        distances=matrices.distances(machine),
        links=matrices.links(machine),
        notes=_notes(machine),
        warnings=tuple(printable(warning, 500) for warning in machine.warnings),
    )


def core_lines(cores: Sequence[Core], copies: int = 1) -> tuple[tuple[str, CpuSet], ...]:
    """Cores in words, each kind once: (16 cores of 2 threads each, their CPUs)."""
    kinds: dict[tuple[object, ...], list[Core]] = {}
    for core in cores:
        kinds.setdefault((core.kind, len(core.threads), core.marks, core.known), []).append(core)
    lines = []
    for alike in kinds.values():
        first = alike[0]
        noun = "core" if first.known else "CPU"
        words = count(len(alike), f"{first.kind}-{noun}" if first.kind else noun)
        if len(first.threads) > 1:
            words += f" {TIMES} {len(first.threads)} threads"
        if first.marks:
            words += f" ({', '.join(first.marks)})"
        lines.append((words + (" each" if copies > 1 else ""), CpuSet.union(core.threads for core in alike)))
    return tuple(lines)


def _package(part: Part, machine: Machine) -> Box:
    children = tuple(_node(child, machine) for child in part.children)
    noun = "Package" if len(part.ids) == 1 else "Packages"
    aside = f"{len(part.ids)} alike" if len(part.ids) > 1 else ""
    return Box("package", f"{noun} {_numbers(part.ids)}", aside, children=children, copies=len(part.ids))


def _node(part: Part, machine: Machine) -> Box:
    copies = len(part.ids)
    # CPUs that no node has; those of several packages may be folded into one part, which still has no number.
    if part.ids[0] is None:
        title = "No NUMA node" if machine.numa else "NUMA not known"
        children = tuple(_group(child, copies) for child in part.children)
        return Box("numa", title, children=children, copies=copies)
    first = part.nodes[0]
    title = f"NUMA {_numbers(part.ids)}"
    if first.kind not in (None, "dram"):
        title += f" · {MEMORY_KINDS[first.kind]}"
    facts = [f"{copies} alike, each:"] if copies > 1 else []
    facts += _node_facts(part, machine)
    hung = devices.boxes(part.hardware[0], machine, first.id) if copies == 1 else _hung_on_each(part)
    return Box(
        "numa",
        title,
        aside=_memory(part.nodes),
        facts=tuple(facts),
        hue=first.id,
        children=(*(_group(child, copies) for child in part.children), *hung),
        copies=copies,
    )


def _node_facts(part: Part, machine: Machine) -> list[str]:
    node = part.nodes[0]
    facts = []
    if not node.allowed:
        facts.append("not allowed by the cgroup")
    if not part.cpus[0]:
        facts.append("no CPUs" if node.memory_bytes is not None else "CPUs not known")
        if node.nearest_cpus and len(part.ids) == 1:
            facts.append(f"nearest {_cpus(node.nearest_cpus)}")
    elif not part.children:
        facts.append(f"CPUs {_cpu_lists(part.cpus)}")
    if node.memory_bytes == 0:
        facts.append("no memory")
    packages = {cpu.package for cpu in machine.cpus if cpu.numa == node.id and cpu.package is not None}
    if len(packages) > 1:
        facts.append(
            f"over {count(len(packages), 'package')}"
            + (f": {id_list(packages)}" if len(part.ids) == 1 else "")
        )
    facts += [_huge_pages(pool, exact=len(part.ids) == 1) for pool in node.hugepages if pool.total]
    return facts


def _group(part: Part, node_copies: int = 1) -> Box:
    copies = len(part.cpus)
    per_node = copies // node_copies
    title = ""
    facts: list[str] = []
    if part.cache is not None:
        title = f"{per_node} {TIMES} {_cache(part.cache)}" if per_node > 1 else _cache(part.cache)
        if not part.cache.cpus <= part.cpus[0] and copies == 1:
            facts.append(f"shared with {_cpus(part.cache.cpus - part.cpus[0])}")
    lines = core_lines(part.cores, per_node)
    if copies > 1:
        sentences = (*(words for words, _ in lines), f"CPUs {_cpu_lists(part.cpus)}")
    else:
        sentences = tuple(f"{words}: {_cpus(cpus)}" for words, cpus in lines)
    return Box(part.role, title, facts=tuple(facts), cores=part.cores, sentences=sentences, copies=per_node)


def _hung_on_each(part: Part) -> tuple[Box, ...]:
    """Folded nodes hang alike devices: one line for each, with the names from the first to the last node."""
    return tuple(
        Box(
            "device",
            f"{column[0].title} … {column[-1].title}",
            facts=tuple(fact for fact in ("one on each", column[0].make) if fact),
            hue=part.nodes[0].id,
            copies=len(column),
        )
        for column in zip(*part.hardware, strict=True)
    )


def _title(machine: Machine) -> str:
    named = [part for part in (machine.vendor, machine.product) if part]
    return printable(" ".join(named), 100) or "Machine"


def _summary(machine: Machine) -> tuple[str, ...]:
    memory = machine.memory_bytes
    if memory is None and machine.numa and all(node.memory_bytes is not None for node in machine.numa):
        memory = sum(node.memory_bytes or 0 for node in machine.numa)
    parts = [
        count(len(machine.packages), "package") if machine.packages else "",
        count(len(machine.numa), "NUMA node") if machine.numa else "",
        count(machine.core_count, "core") if _knows_cores(machine) else "",
        count(len(machine.online), "CPU") if machine.cpus else "",
        size(memory) if memory is not None else "",
    ]
    kinds = [printable(part, 100) for part in (machine.model, machine.architecture) if part]
    small = _small_caches(machine)
    lines = (" · ".join(part for part in parts if part), " · ".join(kinds), " · ".join(small))
    return tuple(line for line in lines if line)


def _knows_cores(machine: Machine) -> bool:
    """Some sources list CPUs and do not tell which of them share a core."""
    return machine.stated_core_count is not None or any(cpu.siblings for cpu in machine.cpus)


def _small_caches(machine: Machine) -> list[str]:
    """The caches below the drawn ones, by size: they differ only between kinds of cores."""
    top = max((cache.level for cache in machine.caches), default=0)
    below: dict[tuple[int, str], set[int]] = {}
    for cache in machine.caches:
        if cache.level < max(top, 3) and cache.size_bytes:
            below.setdefault((cache.level, cache.type), set()).add(cache.size_bytes)
    return [
        f"L{level}{'' if kind == 'Unified' else kind[0].lower()} {' or '.join(size(n) for n in sorted(sizes))}"
        for (level, kind), sizes in sorted(below.items())
    ]


def _notes(machine: Machine) -> tuple[str, ...]:
    forbidden = CpuSet(cpu.id for cpu in machine.cpus if not cpu.allowed)
    sets = (
        ("offline", machine.offline),
        ("isolated from the scheduler", machine.isolated),
        ("without the timer tick (nohz_full)", machine.nohz_full),
        ("not allowed by the cgroup", forbidden),
    )
    return tuple(f"{_cpus(cpus)} {'is' if len(cpus) == 1 else 'are'} {what}" for what, cpus in sets if cpus)


def _memory(nodes: tuple[NumaNode, ...]) -> str:
    amounts = [node.memory_bytes for node in nodes if node.memory_bytes]
    if not amounts:
        return ""
    if min(amounts) == max(amounts):
        return size(amounts[0])
    low, high = rounded(min(amounts)), rounded(max(amounts))
    return low if low == high else f"{low} to {high}"


def _huge_pages(pool: HugePages, *, exact: bool) -> str:
    free = f", {pool.free} free" if exact and pool.free is not None else ""
    return f"huge pages {page_size_name(pool.size_bytes)}: {pool.total}{free}"


def _cache(cache: Cache) -> str:
    return f"L{cache.level} {size(cache.size_bytes)}" if cache.size_bytes else f"L{cache.level}"


def _cpu_lists(lists: tuple[CpuSet, ...]) -> str:
    if len(lists) <= 4:
        return " · ".join(cpu_list(cpus) for cpus in lists)
    return f"{cpu_list(lists[0])} · {cpu_list(lists[1])} · … · {cpu_list(lists[-1])}"


def _cpus(cpus: CpuSet) -> str:
    """`CPUs 0-3`, kept together when a line is broken."""
    return f"CPU{'' if len(cpus) == 1 else 's'}{GLUE}{cpu_list(cpus)}"


def _numbers(ids: tuple[int | None, ...]) -> str:
    return id_list(number for number in ids if number is not None)
