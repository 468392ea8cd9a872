"""What differs between two machines, in the words of somebody who has to find the odd one in a fleet.

Things are matched by what people call them (NUMA node 1, CPU 5, the device at 0000:3b:00.0). Equal differences are
told once: 96 CPUs that are offline in one machine are one line. What changes while a machine runs (free huge
pages) or with every boot (the few pages firmware keeps) is no difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from numaware.machine.codec import page_size_name
from numaware.machine.cpuset import CpuSet
from numaware.machine.topology import Cpu, Machine, NumaNode, PciDevice
from numaware.machine.words import MEMORY_KINDS, TIMES, count, cpu_list, id_list, printable, size, vendor

Area = Literal["machine", "NUMA nodes", "CPUs", "caches", "distances", "devices", "links"]

# Firmware and kernel keep a little memory, another amount at every boot; a missing module is far more than this.
_MEMORY_TOLERANCE = 100
_LONGEST_LIST = 4


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
        ("architecture", lambda machine: _text(machine.architecture)),
        ("vendor", lambda machine: _text(machine.vendor)),
        ("product", lambda machine: _text(machine.product)),
        ("processor", lambda machine: _text(machine.model)),
        ("packages", lambda machine: str(len(machine.packages))),
        ("NUMA nodes", lambda machine: str(len(machine.numa))),
        ("NUMA nodes in each package (SNC or NPS setting)", _nodes_per_package),
        ("cores", lambda machine: str(machine.core_count)),
        ("threads of each core", _threads_per_core),
        ("CPUs online", lambda machine: str(len(machine.online))),
        ("isolated CPUs", lambda machine: cpu_list(machine.isolated) or "none"),
        ("CPUs without timer tick (nohz_full)", lambda machine: cpu_list(machine.nohz_full) or "none"),
    ]
    differences = [
        Difference("machine", "machine", what, fact(a), fact(b)) for what, fact in facts if fact(a) != fact(b)
    ]
    if not (a.numa or b.numa) and not _same_memory(a.memory_bytes, b.memory_bytes):
        sizes = _sizes(a.memory_bytes, b.memory_bytes)
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
    groups: dict[tuple[str, str, str], list[int]] = {}
    for number in sorted(here.keys() | there.keys()):
        for difference in _node(here.get(number), there.get(number), comparable):
            groups.setdefault(difference, []).append(number)
    return [
        Difference("NUMA nodes", f"NUMA node{'s' * (len(ids) > 1)} {id_list(ids)}", *difference)
        for difference, ids in groups.items()
    ]


def _node(
    a: NumaNode | None, b: NumaNode | None, comparable: CpuSet | None
) -> Iterable[tuple[str, str, str]]:
    if a is None or b is None:
        yield "", *_presence(a, b)
        return
    if not _same_memory(a.memory_bytes, b.memory_bytes):
        yield "memory", *_sizes(a.memory_bytes, b.memory_bytes)
    if a.kind != b.kind and a.memory_bytes is not None and b.memory_bytes is not None:
        yield "kind of memory", _kind(a), _kind(b)
    own, near = _shared(a.cpus, b.cpus, comparable), _shared(a.nearest_cpus, b.nearest_cpus, comparable)
    if own[0] != own[1]:
        yield "CPUs", *own
    if near[0] != near[1] and not (a.cpus or b.cpus):
        yield "nearest CPUs", *near
    here, there = ({pool.size_bytes: pool.total for pool in node.hugepages} for node in (a, b))
    for page in sorted(here.keys() | there.keys()):
        if here.get(page, 0) != there.get(page, 0):
            yield f"huge pages of {page_size_name(page)}", str(here.get(page, 0)), str(there.get(page, 0))
    if a.allowed != b.allowed:
        yield "", *_either(a.allowed, b.allowed, "allowed", "not allowed by the cgroup")


def _shared(a: CpuSet, b: CpuSet, comparable: CpuSet | None) -> tuple[str, str]:
    if comparable is not None:
        a, b = a & comparable, b & comparable
    return cpu_list(a) or "none", cpu_list(b) or "none"


def _kind(node: NumaNode) -> str:
    return "not known" if node.kind is None else MEMORY_KINDS[node.kind]


def _same_memory(a: int | None, b: int | None) -> bool:
    if a is None or b is None:
        return a == b
    return abs(a - b) * _MEMORY_TOLERANCE < max(a, b) or a == b


def _sizes(a: int | None, b: int | None) -> tuple[str, str]:
    return "not known" if a is None else size(a), "not known" if b is None else size(b)


# CPUs


def _cpus(a: Machine, b: Machine) -> list[Difference]:
    here, there = ({cpu.id: cpu for cpu in machine.cpus} for machine in (a, b))
    if not here or not there:
        return _all_or_nothing("CPUs", "CPUs", len(here), len(there))
    groups: dict[tuple[str, str, str], list[int]] = {}
    repaired: list[int] = []
    for number in sorted(here.keys() | there.keys()):
        left, right = here.get(number), there.get(number)
        for difference in _cpu(left, right):
            groups.setdefault(difference, []).append(number)
        if left and right and len(left.siblings) == len(right.siblings) and left.siblings != right.siblings:
            repaired.append(number)
    differences = [Difference("CPUs", _named_cpus(ids), *difference) for difference, ids in groups.items()]
    if repaired:
        first = repaired[0]
        pair = (cpu_list(machine[first].siblings) for machine in (here, there))
        what = f"other thread siblings, CPU {first} for example:"
        differences.append(Difference("CPUs", _named_cpus(repaired), what, *pair))
    return differences


def _cpu(a: Cpu | None, b: Cpu | None) -> Iterable[tuple[str, str, str]]:
    if a is None or b is None:
        yield "", *_presence(a, b)
        return
    if a.online != b.online:
        # An offline CPU has no place; that it has none is no second difference.
        yield "", *_either(a.online, b.online, "online", "offline")
        return
    if a.allowed != b.allowed:
        yield "", *_either(a.allowed, b.allowed, "allowed", "not allowed by the cgroup")
    for what, left, right in (("package", a.package, b.package), ("die", a.die, b.die)):
        if left != right:
            yield what, _number(left), _number(right)
    if a.kind != b.kind:
        yield "kind of core", a.kind or "not known", b.kind or "not known"


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
    here, there = ({node.id: node.distances for node in machine.numa if node.distances} for machine in (a, b))
    if not here or not there:
        return _all_or_nothing("distances", "distances", len(here), len(there))
    groups: dict[tuple[int | None, int | None], list[str]] = {}
    both = here.keys() & there.keys()
    for number in sorted(node for node in both if here[node] != there[node]):
        left, right = dict(here[number]), dict(there[number])
        for other in sorted(both):
            if left.get(other) != right.get(other):
                groups.setdefault((left.get(other), right.get(other)), []).append(f"{number} to {other}")
    return [
        Difference("distances", f"NUMA nodes {_some(pairs)}", "distance", _number(left), _number(right))
        for (left, right), pairs in groups.items()
    ]


# Devices


def _devices(a: Machine, b: Machine) -> list[Difference]:
    here, there = ({device.address: device for device in machine.pci} for machine in (a, b))
    if bool(here) != bool(there):
        differences = _all_or_nothing("devices", "PCI functions", len(here), len(there))
    else:
        differences = _pci(here, there, {**_names(b), **_names(a)})
    known_by_name = [
        {device.name: device.numa for device in machine.devices if device.pci is None} for machine in (a, b)
    ]
    if all(known_by_name) or not (here or there):
        differences += _by_name(*known_by_name)
    return differences


def _pci(
    here: Mapping[str, PciDevice], there: Mapping[str, PciDevice], names: Mapping[str, str]
) -> list[Difference]:
    groups: dict[tuple[str, str, str, str, str | None], list[str]] = {}
    for address in sorted(here.keys() | there.keys()):
        left, right = here.get(address), there.get(address)
        sample = here[address] if address in here else there[address]
        for what, a, b in _function(left, right):
            card = None if what else sample.virtual_function_of
            groups.setdefault((what, a, b, _chip(sample), card), []).append(address)
    return [
        Difference("devices", _subject(addresses, chip, card, names), what, a, b)
        for (what, a, b, chip, card), addresses in groups.items()
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


def _function(a: PciDevice | None, b: PciDevice | None) -> Iterable[tuple[str, str, str]]:
    if a is None or b is None:
        yield "", *_presence(a, b)
        return
    if (a.vendor, a.device) != (b.vendor, b.device):
        yield "is a", _chip(a), _chip(b)
    if a.numa != b.numa:
        yield "NUMA node", _number(a.numa), _number(b.numa)
    if a.driver != b.driver:
        yield "driver", _text(a.driver, "none"), _text(b.driver, "none")
    if a.parent != b.parent:
        yield "bridge above it", _text(a.parent, "none"), _text(b.parent, "none")


def _names(machine: Machine) -> dict[str, str]:
    """The first name of each PCI function that has one."""
    return {device.pci: printable(device.name, 40) for device in reversed(machine.devices) if device.pci}


def _by_name(here: dict[str, int | None], there: dict[str, int | None]) -> list[Difference]:
    differences = []
    for name in sorted(here.keys() | there.keys()):
        shown = printable(name, 40)
        if name not in here or name not in there:
            differences.append(Difference("devices", shown, "", *_either(name in here, name in there)))
        elif here[name] != there[name]:
            pair = _number(here[name]), _number(there[name])
            differences.append(Difference("devices", shown, "NUMA node", *pair))
    return differences


def _links(a: Machine, b: Machine) -> list[Difference]:
    here, there = (
        {tuple(sorted((link.a, link.b))): link.type for link in machine.links} for machine in (a, b)
    )
    if not here or not there:
        return _all_or_nothing("links", "links between devices", len(here), len(there))
    groups: dict[tuple[str, str], list[str]] = {}
    for pair in sorted(here.keys() | there.keys()):
        if here.get(pair) != there.get(pair):
            key = _text(here.get(pair), "none"), _text(there.get(pair), "none")
            groups.setdefault(key, []).append(printable(" to ".join(pair), 60))
    return [Difference("links", _some(pairs), "link", *key) for key, pairs in groups.items()]


# Words


def _all_or_nothing(area: Area, subject: str, here: int, there: int) -> list[Difference]:
    """One line where one of the two sources knows nothing of a subject."""
    if here == there:
        return []
    return [Difference(area, subject, "", str(here or "not known"), str(there or "not known"))]


def _presence(a: object | None, b: object | None) -> tuple[str, str]:
    return _either(a is not None, b is not None)


def _either(a: bool, b: bool, yes: str = "there", no: str = "missing") -> tuple[str, str]:
    return (yes if a else no), (yes if b else no)


def _number(value: int | None) -> str:
    return "not known" if value is None else str(value)


def _several(numbers: set[int]) -> str:
    return " or ".join(str(number) for number in sorted(numbers)) or "not known"


def _text(value: str | None, missing: str = "not known") -> str:
    return missing if value is None else printable(value, 100)


def _some(items: list[str]) -> str:
    """All of a few, the first of many."""
    if len(items) <= _LONGEST_LIST:
        return ", ".join(items)
    return f"{', '.join(items[: _LONGEST_LIST - 1])} and {len(items) - _LONGEST_LIST + 1} more"
