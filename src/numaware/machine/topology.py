"""What a machine is: plain frozen values that every reader produces and everything else consumes.

A reader fills in what its source knows and leaves the rest `None` or empty; nothing is guessed here. All
tuples are sorted (CPUs and nodes by id, caches by level, type and first CPU, PCI by address), so that equal
machines are equal values. What follows from the values (packages, cores, who is near a CPU-less node) is
computed by the functions below and by `Machine`'s properties, never stored twice. Names and order of the fields are
those of the JSON that `codec.py` writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec

from numaware.machine.cpuset import EMPTY, CpuSet, grouped

CoreKind = Literal["P", "E"]
CacheType = Literal["Unified", "Data", "Instruction"]
MemoryKind = Literal["dram", "hbm", "cxl", "nvm", "gpu"]
DeviceKind = Literal["gpu", "nic", "nvme", "other"]

# Domains have four digits, or eight behind some virtual host bridges (Intel VMD, Hyper-V).
PCI_ADDRESS = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
# Display controllers of management chips (ASPEED, Matrox): a screen for the operator, not a GPU.
MANAGEMENT_VENDORS = ("1a03", "102b")


Bytes = Annotated[int, msgspec.Meta(ge=0)]


class Cpu(msgspec.Struct, frozen=True):
    """One logical CPU (a hardware thread), by its kernel number.

    `package`, `die`, `cluster` and `core` are the kernel's ids; `core` is unique only inside its die and
    package. `siblings` are the threads of the same core, itself included. Ids are None where the source
    does not say, as they are for an offline CPU.
    """

    id: int
    online: bool = True
    package: int | None = None
    die: int | None = None
    core: int | None = None
    numa: int | None = None
    siblings: CpuSet = EMPTY
    kind: CoreKind | None = None
    cluster: int | None = None
    allowed: bool = True


class Cache(msgspec.Struct, frozen=True, rename="camel"):
    """One cache and the CPUs that share it."""

    level: int
    type: CacheType
    cpus: CpuSet
    size_bytes: Bytes | None = None


def ordered_caches(caches: Iterable[Cache]) -> tuple[Cache, ...]:
    """Caches as a machine lists them: by level, type and first CPU."""

    def key(cache: Cache) -> tuple[int, str, int, int]:
        mask = cache.cpus.mask
        return cache.level, cache.type, mask & -mask, mask

    return tuple(sorted(caches, key=key))


class HugePages(msgspec.Struct, frozen=True):
    """The pool of one huge page size on one NUMA node, in pages."""

    size_bytes: int
    total: int
    free: int | None = None


class NumaNode(msgspec.Struct, frozen=True, rename="camel"):
    """One NUMA node: CPUs, memory, or both, or neither.

    `distances` holds (node id, distance) pairs, ascending by id, and is empty where the source has none.
    `nearest_cpus` are the CPUs the memory is closest to: its own, or for a CPU-less node (HBM, CXL, GPU memory)
    those of the nodes it is attached to.
    """

    id: int
    cpus: CpuSet = EMPTY
    memory_bytes: int | None = None
    hugepages: tuple[HugePages, ...] = ()
    distances: tuple[tuple[int, int], ...] = ()
    kind: MemoryKind | None = None
    nearest_cpus: CpuSet = EMPTY
    allowed: bool = True


class PciDevice(msgspec.Struct, frozen=True, rename="camel"):
    """One PCI function. `parent` is the bridge above it, None below a host bridge; `class_code` has six hex digits."""

    address: str
    class_code: str = msgspec.field(name="class", default="000000")
    vendor: str = ""
    device: str = ""
    driver: str | None = None
    numa: int | None = None
    local_cpus: CpuSet | None = None
    parent: str | None = None
    virtual_function_of: str | None = None


class Device(msgspec.Struct, frozen=True):
    """A device by the name people use for it (GPU0, eth0, mlx5_0, nvme0n1), with the PCI function behind it if known."""

    name: str
    kind: DeviceKind = "other"
    pci: str | None = None
    cpus: CpuSet | None = None
    numa: int | None = None
    alias: str | None = None


class Link(msgspec.Struct, frozen=True):
    """How close two named devices are, in nvidia-smi's words: PIX, PXB, PHB, NODE, SYS, or NV4 and the like."""

    a: str
    b: str
    type: str


class Package(msgspec.Struct, frozen=True):
    """A socket: its CPUs and the NUMA nodes they belong to."""

    id: int
    cpus: CpuSet
    numa: tuple[int, ...]


class Machine(msgspec.Struct, frozen=True):
    """Everything known about one machine.

    `stated_core_count` is for a source that counts cores without telling which CPUs share one.
    """

    architecture: str | None = None
    vendor: str | None = None
    product: str | None = None
    model: str | None = None
    cpus: tuple[Cpu, ...] = ()
    caches: tuple[Cache, ...] = ()
    numa: tuple[NumaNode, ...] = ()
    pci: tuple[PciDevice, ...] = ()
    devices: tuple[Device, ...] = ()
    links: tuple[Link, ...] = ()
    isolated: CpuSet = EMPTY
    nohz_full: CpuSet = EMPTY
    memory_bytes: int | None = None
    stated_core_count: int | None = None
    warnings: tuple[str, ...] = ()

    @property
    def online(self) -> CpuSet:
        return CpuSet(cpu.id for cpu in self.cpus if cpu.online)

    @property
    def offline(self) -> CpuSet:
        return CpuSet(cpu.id for cpu in self.cpus if not cpu.online)

    @property
    def packages(self) -> tuple[Package, ...]:
        """Sockets of the online CPUs, by id; empty where the source does not tell sockets."""
        placed = [(cpu.package, cpu) for cpu in self.cpus if cpu.online and cpu.package is not None]
        cpus = grouped((package, cpu.id) for package, cpu in placed)
        nodes = {(package, cpu.numa) for package, cpu in placed if cpu.numa is not None}
        return tuple(
            Package(package, cpus[package], tuple(sorted(node for other, node in nodes if other == package)))
            for package in sorted(cpus)
        )

    @property
    def core_count(self) -> int:
        """Physical cores with at least one online thread.

        AMD's Bulldozer lists two cores that share a unit as siblings: the core ids tell them apart. A CPU whose
        siblings are unknown counts as a core, unless the source has counted.
        """
        online = self.online
        if self.stated_core_count is not None and any(cpu.online and not cpu.siblings for cpu in self.cpus):
            return self.stated_core_count
        return len({(cpu.siblings & online or CpuSet([cpu.id]), cpu.core) for cpu in self.cpus if cpu.online})
