"""What the laws are tried on: CPU sets, quantities and whole machines, as Hypothesis strategies."""

from __future__ import annotations

from itertools import combinations
from typing import get_args

from hypothesis import strategies as st

from numaware.machine.cpuset import EMPTY, CpuSet
from numaware.machine.quantity import Family, Quantity
from numaware.machine.topology import (
    Cache,
    CoreKind,
    Cpu,
    Device,
    DeviceKind,
    HugePages,
    Link,
    Machine,
    MemoryKind,
    NumaNode,
    PciDevice,
)

FAMILIES: tuple[Family, ...] = get_args(Family)
CORE_KINDS: tuple[CoreKind | None, ...] = (None, *get_args(CoreKind))
MEMORY_KINDS: tuple[MemoryKind | None, ...] = (None, *get_args(MemoryKind))
DEVICE_KINDS: tuple[DeviceKind, ...] = get_args(DeviceKind)
BYTES = st.integers(0, 2**53)
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=12)


def masks(largest: int = 255) -> st.SearchStrategy[int]:
    """Bit masks of ids up to `largest`: few bits, runs of bits and noise, all of which real sets are made of."""
    few = st.sets(st.integers(0, largest), max_size=6).map(lambda ids: sum(1 << number for number in ids))
    runs = st.tuples(st.integers(0, largest), st.integers(0, largest)).map(
        lambda ends: (1 << max(ends) + 1) - (1 << min(ends))
    )
    noise = st.integers(0, (1 << largest + 1) - 1)
    return few | runs | noise | st.tuples(runs, noise).map(lambda pair: pair[0] & pair[1])


def cpusets(largest: int = 255) -> st.SearchStrategy[CpuSet]:
    return masks(largest).map(CpuSet.from_mask)


@st.composite
def quantities(draw: st.DrawFn) -> Quantity:
    """Amounts of either sign that fit into 64 bits, whole ones and fractions, in every family."""
    limit = 2**63 - 1
    whole = draw(st.integers(-limit, limit) | st.integers(-5000, 5000).map(lambda number: number * 1024))
    unit = draw(st.sampled_from([10**9, 10**6, 10**3, 1]))
    return Quantity(whole * unit, draw(st.sampled_from(FAMILIES)))


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Machines that hang together: CPUs, caches, nodes and devices agree with each other about who is where.

    CPU and node numbers are scattered, some CPUs are offline, some nodes have no CPUs, and what a source may
    not know is sometimes left out.
    """
    packages, nodes_each, cores_each, threads = (draw(st.integers(1, most)) for most in (2, 2, 3, 2))
    node_ids = sorted(draw(st.sets(st.integers(0, 40), min_size=packages * nodes_each, max_size=6)))
    homes = node_ids[: packages * nodes_each]
    numbers = draw(st.permutations(range(len(homes) * cores_each * threads)))
    offline = draw(st.sets(st.sampled_from(numbers), max_size=len(numbers) - 1))
    cpus = [Cpu(id=number, online=False) for number in offline]
    cpus_of = dict.fromkeys(node_ids, EMPTY)
    for index in range(len(homes) * cores_each):
        home, core = divmod(index, cores_each)
        siblings = CpuSet(numbers[index * threads : (index + 1) * threads]) - CpuSet(offline)
        cpus_of[homes[home]] |= siblings
        die, cluster = draw(st.sampled_from([None, 0])), draw(st.sampled_from([None, core]))
        kind = draw(st.sampled_from(CORE_KINDS))
        cpus += [
            Cpu(
                id=number,
                allowed=draw(st.booleans()),
                package=home // nodes_each,
                die=die,
                cluster=cluster,
                core=core,
                numa=homes[home],
                siblings=siblings,
                kind=kind,
            )
            for number in siblings
        ]
    online = CpuSet(numbers) - CpuSet(offline)
    pci = draw(pci_devices(node_ids))
    devices = draw(named_devices(pci))
    link_types = st.sampled_from(["PIX", "PXB", "PHB", "NODE", "SYS", "NV4"])
    return Machine(
        architecture=draw(st.sampled_from(["x86_64", "aarch64", None])),
        vendor=draw(st.none() | NAMES),
        product=draw(st.none() | NAMES),
        model=draw(st.none() | NAMES),
        cpus=tuple(sorted(cpus, key=lambda cpu: cpu.id)),
        caches=tuple(
            Cache(level=3, type="Unified", cpus=shared, size_bytes=draw(st.none() | BYTES))
            for shared in sorted(filter(None, cpus_of.values()), key=CpuSet.first)
        ),
        numa=draw(numa_nodes(cpus_of)),
        pci=pci,
        devices=devices,
        links=tuple(Link(a=a.name, b=b.name, type=draw(link_types)) for a, b in combinations(devices, 2)),
        isolated=online & draw(cpusets(23)),
        nohz_full=online & draw(cpusets(23)),
        memory_bytes=draw(st.none() | BYTES),
        warnings=tuple(draw(st.lists(NAMES, max_size=2))),
    )


@st.composite
def numa_nodes(draw: st.DrawFn, cpus_of: dict[int, CpuSet]) -> tuple[NumaNode, ...]:
    """One node per key; those without CPUs are memory attached to some node that has them."""
    has_distances = draw(st.booleans())
    return tuple(
        NumaNode(
            id=number,
            cpus=cpus,
            memory_bytes=draw(st.none() | BYTES),
            hugepages=draw(hugepages()),
            distances=tuple(
                (other, 10 if other == number else draw(st.integers(11, 254)))
                for other in cpus_of
                if has_distances
            ),
            kind=draw(st.sampled_from(MEMORY_KINDS)),
            nearest_cpus=cpus or draw(st.sampled_from(list(cpus_of.values()))),
            allowed=draw(st.booleans()),
        )
        for number, cpus in cpus_of.items()
    )


@st.composite
def hugepages(draw: st.DrawFn) -> tuple[HugePages, ...]:
    sizes = draw(st.sets(st.sampled_from([64 << 10, 2 << 20, 32 << 20, 1 << 30])))
    return tuple(
        HugePages(size, draw(st.integers(0, 1 << 20)), draw(st.none() | st.integers(0, 1 << 20)))
        for size in sorted(sizes)
    )


@st.composite
def pci_devices(draw: st.DrawFn, node_ids: list[int]) -> tuple[PciDevice, ...]:
    buses = draw(st.sets(st.integers(0, 255), max_size=3))
    return tuple(
        PciDevice(
            address=f"0000:{bus:02x}:00.0",
            class_code=draw(st.sampled_from(["030200", "020000", "010802"])),
            vendor=draw(st.sampled_from(["10de", "15b3", "144d"])),
            device=draw(st.from_regex(r"[0-9a-f]{4}", fullmatch=True)),
            driver=draw(st.sampled_from(["nvidia", "mlx5_core", None])),
            numa=draw(st.none() | st.sampled_from(node_ids)),
            local_cpus=draw(st.none() | cpusets(63)),
            parent=draw(st.none() | st.just("0000:00:01.0")),
            virtual_function_of=None,
        )
        for bus in sorted(buses)
    )


@st.composite
def named_devices(draw: st.DrawFn, pci: tuple[PciDevice, ...]) -> tuple[Device, ...]:
    return tuple(
        Device(
            name=f"device{index}",
            kind=draw(st.sampled_from(DEVICE_KINDS)),
            pci=function.address,
            cpus=function.local_cpus,
            numa=function.numa,
            alias=draw(st.none() | NAMES),
        )
        for index, function in enumerate(pci)
    )
