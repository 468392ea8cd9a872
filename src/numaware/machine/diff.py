"""What differs between two machines, in the words of somebody who has to find the odd one in a fleet.

Things are matched by what people call them (NUMA node 1, CPU 5, the device at 0000:3b:00.0). Equal differences are
told once: 96 CPUs that are offline in one machine are one line. What changes while a machine runs (free huge
pages) or with every boot (the few pages firmware keeps) is no difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from numaware.machine.codec import page_size_name
from numaware.machine.cpuset import CpuSet
from numaware.machine.topology import Cpu, Machine, NumaNode, PciDevice
from numaware.machine.words import MEMORY_KINDS, TIMES, count, cpu_list, id_list, printable, size, vendor

_Key = TypeVar("_Key", int, str)
_Value = TypeVar("_Value")
_Group = TypeVar("_Group")
# What differs, and what each machine has, in words.
_Row = tuple[str, str, str]
Area = Literal["machine", "NUMA nodes", "CPUs", "caches", "distances", "devices", "links"]

# Firmware and kernel keep a little memory, another amount at every boot; a missing module is far more than this.
_MEMORY_TOLERANCE = 100
_LONGEST_LIST = 4
_ALLOWED = {True: "allowed", False: "not allowed by the cgroup"}
_ONLINE = {True: "online", False: "offline"}


class Difference(msgspec.Struct, frozen=True):
    """One thing that is not the same: `a` and `b` are what each machine has, in words."""

    area: Area
    subject: str
    what: str
    a: str
    b: str

    def __str__(self) -> str:
        what = f"{self.what} " if self.what else ""
        return f"{self.subject}: {what}{self.a} vs {self.b}"


def compare(a: Machine, b: Machine) -> tuple[Difference, ...]:
    """All differences, the coarse ones first."""
    return (
        *_machine(a, b),
        *_nodes(a, b),
        *_cpus(a, b),
        *_caches(a, b),
        *_distances(a, b),
        *_devices(a, b),
        *_links(a, b),
    )


# The machine as a whole


def _machine(a: Machine, b: Machine) -> list[Difference]:
    facts: list[tuple[str, Callable[[Machine], str]]] = [
        ("architecture", lambda machine: _known(machine.architecture, _text)),
        ("vendor", lambda machine: _known(machine.vendor, _text)),
        ("product", lambda machine: _known(machine.product, _text)),
        ("processor", lambda machine: _known(machine.model, _text)),
        ("packages", lambda machine: str(len(machine.packages))),
        ("NUMA nodes", lambda machine: str(len(machine.numa))),
        ("NUMA nodes in each package (SNC or NPS setting)", _nodes_per_package),
        ("cores", lambda machine: str(machine.core_count)),
        ("threads of each core", _threads_per_core),
        ("CPUs online", lambda machine: str(len(machine.online))),
        ("isolated CPUs", lambda machine: _listed(machine.isolated)),
        ("CPUs without timer tick (nohz_full)", lambda machine: _listed(machine.nohz_full)),
    ]
    differences = [
        Difference("machine", "machine", what, fact(a), fact(b)) for what, fact in facts if fact(a) != fact(b)
    ]
    if not (a.numa or b.numa) and not _same_memory(a.memory_bytes, b.memory_bytes):
        sizes = (_known(machine.memory_bytes, size) for machine in (a, b))
        differences.append(Difference("machine", "machine", "memory", *sizes))
    return differences


def _nodes_per_package(machine: Machine) -> str:
    return _several({len(package.numa) for package in machine.packages})


def _threads_per_core(machine: Machine) -> str:
    return _several({len(cpu.siblings) for cpu in machine.cpus if cpu.online and cpu.siblings})


# NUMA nodes


def _nodes(a: Machine, b: Machine) -> list[Difference]:
    here, there = ({node.id: node for node in machine.numa} for machine in (a, b))
    # A CPU that only one machine has online is told as a difference of that CPU, not of its node.
    comparable = a.online & b.online if a.cpus and b.cpus else None
    rows = _rows(here, there, lambda left, right: _node(left, right, comparable))
    return [
        Difference("NUMA nodes", f"NUMA node{'s' * (len(ids) > 1)} {id_list(ids)}", *row)
        for row, ids in _gathered(rows).items()
    ]


def _node(a: NumaNode, b: NumaNode, comparable: CpuSet | None) -> Iterable[_Row]:
    if not _same_memory(a.memory_bytes, b.memory_bytes):
        yield from _changed("memory", a.memory_bytes, b.memory_bytes, size)
    if a.memory_bytes is not None and b.memory_bytes is not None:
        yield from _changed("kind of memory", a.kind, b.kind, MEMORY_KINDS.__getitem__)
    if comparable is None:
        comparable = a.cpus | b.cpus | a.nearest_cpus | b.nearest_cpus
    yield from _changed("CPUs", a.cpus & comparable, b.cpus & comparable, _listed)
    if not (a.cpus or b.cpus):
        yield from _changed("nearest CPUs", a.nearest_cpus & comparable, b.nearest_cpus & comparable, _listed)
    here, there = (Counter({pool.size_bytes: pool.total for pool in node.hugepages}) for node in (a, b))
    for page in sorted(here.keys() | there.keys()):
        yield from _changed(f"huge pages of {page_size_name(page)}", here[page], there[page])
    yield from _changed("", a.allowed, b.allowed, _ALLOWED.__getitem__)


def _same_memory(a: int | None, b: int | None) -> bool:
    if a is None or b is None:
        return a == b
    return abs(a - b) * _MEMORY_TOLERANCE < max(a, b) or a == b


# CPUs


def _cpus(a: Machine, b: Machine) -> list[Difference]:
    here, there = ({cpu.id: cpu for cpu in machine.cpus} for machine in (a, b))
    if not here or not there:
        return _all_or_nothing("CPUs", "CPUs", len(here), len(there))
    differences = [
        Difference("CPUs", _named_cpus(ids), *row) for row, ids in _gathered(_rows(here, there, _cpu)).items()
    ]
    siblings = {cpu: (here[cpu].siblings, there[cpu].siblings) for cpu in here.keys() & there.keys()}
    regrouped = sorted(cpu for cpu, (a, b) in siblings.items() if len(a) == len(b) and a != b)
    if regrouped:
        what = f"other thread siblings, CPU {regrouped[0]} for example:"
        pair = map(cpu_list, siblings[regrouped[0]])
        differences.append(Difference("CPUs", _named_cpus(regrouped), what, *pair))
    return differences


def _cpu(a: Cpu, b: Cpu) -> Iterable[_Row]:
    if a.online != b.online:
        # An offline CPU has no place; that it has none is no second difference.
        return _changed("", a.online, b.online, _ONLINE.__getitem__)
    return (
        *_changed("", a.allowed, b.allowed, _ALLOWED.__getitem__),
        *_changed("package", a.package, b.package),
        *_changed("die", a.die, b.die),
        *_changed("kind of core", a.kind, b.kind),
    )


def _named_cpus(ids: list[int]) -> str:
    return f"CPU{'s' * (len(ids) > 1)} {cpu_list(CpuSet(ids))}"


# Caches and distances


def _caches(a: Machine, b: Machine) -> list[Difference]:
    # Where both have the same CPUs, a cache that lost one to an offline CPU is no difference of its own.
    same = {cpu.id for cpu in a.cpus} == {cpu.id for cpu in b.cpus}
    counted = a.online & b.online if same else a.online | b.online
    here, there = (_cache_levels(machine, counted) for machine in (a, b))
    return [
        Difference("caches", name, "", here.get(name, "none"), there.get(name, "none"))
        for name in sorted(here.keys() | there.keys())
        if here.get(name) != there.get(name)
    ]


def _cache_levels(machine: Machine, counted: CpuSet) -> dict[str, str]:
    """Each level in words: 16 of 32 MiB for 16 CPUs each."""
    levels: dict[str, Counter[tuple[int | None, int]]] = {}
    for cache in machine.caches:
        users = len(cache.cpus & counted)
        if not users:
            continue
        name = f"L{cache.level}" if cache.type == "Unified" else f"L{cache.level} {cache.type.lower()}"
        levels.setdefault(name, Counter())[cache.size_bytes, users] += 1
    return {name: _cache_words(kinds) for name, kinds in levels.items()}


def _cache_words(kinds: Counter[tuple[int | None, int]]) -> str:
    ordered = sorted(kinds.items(), key=lambda item: (-item[1], item[0][0] or 0, item[0][1]))
    return " and ".join(
        f"{number} {TIMES} {'unknown size' if amount is None else size(amount)} for {count(cpus, 'CPU')}"
        for (amount, cpus), number in ordered
    )


def _distances(a: Machine, b: Machine) -> list[Difference]:
    here, there = (
        {node.id: dict(node.distances) for node in machine.numa if node.distances} for machine in (a, b)
    )
    if not here or not there:
        return _all_or_nothing("distances", "distances", len(here), len(there))
    both = sorted(here.keys() & there.keys())
    rows = (
        (row, f"{number} to {other}")
        for number in both
        if here[number] != there[number]
        for other in both
        for row in _changed("distance", here[number].get(other), there[number].get(other))
    )
    return [
        Difference("distances", f"NUMA nodes {_some(pairs)}", *row) for row, pairs in _gathered(rows).items()
    ]


# Devices


def _devices(a: Machine, b: Machine) -> list[Difference]:
    here, there = ({device.address: device for device in machine.pci} for machine in (a, b))
    if bool(here) != bool(there):
        differences = _all_or_nothing("devices", "PCI functions", len(here), len(there))
    else:
        differences = _pci(here, there, {**_names(b), **_names(a)})
    mine, theirs = (
        {device.name: device for device in machine.devices if device.pci is None} for machine in (a, b)
    )
    if (mine and theirs) or not (here or there):
        rows = _rows(mine, theirs, lambda left, right: _changed("NUMA node", left.numa, right.numa))
        differences += [Difference("devices", printable(name, 40), *row) for row, name in rows]
    return differences


def _pci(
    here: Mapping[str, PciDevice], there: Mapping[str, PciDevice], names: Mapping[str, str]
) -> list[Difference]:
    groups: dict[tuple[_Row, str, str | None], list[str]] = _gathered(
        ((row, _chip(sample), None if row[0] else sample.virtual_function_of), address)
        for row, address in _rows(here, there, _function)
        for sample in [here.get(address) or there[address]]
    )
    return [
        Difference("devices", _subject(addresses, chip, card, names), *row)
        for (row, chip, card), addresses in groups.items()
    ]


def _chip(device: PciDevice) -> str:
    return printable(f"{vendor(device.vendor)} {device.device}".strip(), 40)


def _subject(addresses: list[str], chip: str, card: str | None, names: Mapping[str, str]) -> str:
    if card is not None:
        return f"{count(len(addresses), 'virtual function')} of {printable(card, 20)} ({_some(addresses)})"
    if len(addresses) == 1:
        return f"{names.get(addresses[0]) or chip} at {printable(addresses[0], 20)}"
    named = [names[address] for address in addresses if address in names]
    what = _some(named) if len(named) == len(addresses) else f"{len(addresses)} {TIMES} {chip}"
    return f"{what} at {_some(addresses)}"


def _function(a: PciDevice, b: PciDevice) -> Iterable[_Row]:
    if (a.vendor, a.device) != (b.vendor, b.device):
        yield "is a", _chip(a), _chip(b)
    yield from _changed("NUMA node", a.numa, b.numa)
    yield from _changed("driver", a.driver, b.driver, _text, "none")
    yield from _changed("bridge above it", a.parent, b.parent, _text, "none")


def _names(machine: Machine) -> dict[str, str]:
    """The first name of each PCI function that has one."""
    return {device.pci: printable(device.name, 40) for device in reversed(machine.devices) if device.pci}


def _links(a: Machine, b: Machine) -> list[Difference]:
    here, there = (
        {tuple(sorted((link.a, link.b))): link.type for link in machine.links} for machine in (a, b)
    )
    if not here or not there:
        return _all_or_nothing("links", "links between devices", len(here), len(there))
    rows = (
        (row, printable(" to ".join(pair), 60))
        for pair in sorted(here.keys() | there.keys())
        for row in _changed("link", here.get(pair), there.get(pair), _text, "none")
    )
    return [Difference("links", _some(pairs), *row) for row, pairs in _gathered(rows).items()]


# What is compared, and the words for it


def _rows(
    here: Mapping[_Key, _Value],
    there: Mapping[_Key, _Value],
    compare: Callable[[_Value, _Value], Iterable[_Row]],
) -> Iterable[tuple[_Row, _Key]]:
    """The differences of things that are matched by key, with the key; what only one side has is one difference."""
    for key in sorted(here.keys() | there.keys()):
        if key in here and key in there:
            yield from ((row, key) for row in compare(here[key], there[key]))
        else:
            yield (("", "there", "missing") if key in here else ("", "missing", "there")), key


def _gathered(rows: Iterable[tuple[_Group, _Key]]) -> dict[_Group, list[_Key]]:
    """Equal differences once, with all that they are about."""
    groups: dict[_Group, list[_Key]] = {}
    for row, key in rows:
        groups.setdefault(row, []).append(key)
    return groups


def _changed(
    what: str, a: Any, b: Any, words: Callable[[Any], str] = str, missing: str = "not known"
) -> Iterable[_Row]:
    """One row if two values differ, none otherwise."""
    if a != b:
        yield what, _known(a, words, missing), _known(b, words, missing)


def _all_or_nothing(area: Area, subject: str, here: int, there: int) -> list[Difference]:
    """One line where one of the two sources knows nothing of a subject."""
    if here == there:
        return []
    return [Difference(area, subject, "", str(here or "not known"), str(there or "not known"))]


def _known(value: _Value | None, words: Callable[[_Value], str] = str, missing: str = "not known") -> str:
    return missing if value is None else words(value)


def _listed(cpus: CpuSet) -> str:
    return cpu_list(cpus) or "none"


def _several(numbers: set[int]) -> str:
    return " or ".join(str(number) for number in sorted(numbers)) or "not known"


def _text(value: str) -> str:
    return printable(value, 100)


def _some(items: list[str]) -> str:
    """All of a few, the first of many."""
    if len(items) <= _LONGEST_LIST:
        return ", ".join(items)
    return f"{', '.join(items[: _LONGEST_LIST - 1])} and {len(items) - _LONGEST_LIST + 1} more"
