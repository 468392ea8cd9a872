"""Machines made up from one line, for examples, the lab and tests.

Two forms, blanks anywhere between the parts:

    2x14                                        2 NUMA nodes of 14 CPUs, each its own socket
    2s x 2n x 16c x 2t +gpu@0,2 +nic@1 mem=64Gi

In the second, `s` counts sockets, `n` NUMA nodes in each socket, `c` cores in each node and `t` threads in each
core; whatever is left out is 1, except the cores. `+gpu@` and `+nic@` put one device on each NUMA node listed
(a node may be listed again for another one), and `mem=` is the memory of each node, 64Gi if not given.

CPUs are numbered as Linux does on most servers: the first threads of all cores, node after node, then the
second threads in the same order. Distances are 10 within a node, 12 within a socket, 21 between sockets.
"""

from __future__ import annotations

import re
from math import prod

import msgspec

from numaware.errors import InputError
from numaware.machine.cpuset import CpuSet
from numaware.machine.quantity import Quantity
from numaware.machine.topology import Cache, Cpu, Device, DeviceKind, Machine, NumaNode, PciDevice

MAX_CPUS = 8_192
MAX_NODES = 1_024
MAX_DEVICES = 1_024
MAX_TEXT = 20_000

_EXAMPLE = "write it like 2x14 or 2s x 2n x 16c x 2t +gpu@0,2 mem=64Gi"
_PLAIN = re.compile(r"(\d{1,6}) ?x ?(\d{1,6})", re.ASCII)
_COUNTS = re.compile(r"\d{1,6}[snct](?: ?x ?\d{1,6}[snct])*", re.ASCII)
_EXTRA = re.compile(r"\+ ?(gpu|nic) ?@ ?(\d{1,6}(?: ?, ?\d{1,6})*)|mem ?= ?([0-9A-Za-z.+-]{1,40})", re.ASCII)
# Kind -> PCI class, vendor and device: an A100 and a ConnectX-6 Dx stand for all GPUs and NICs.
_FUNCTIONS: dict[DeviceKind, tuple[str, str, str]] = {
    "gpu": ("030200", "10de", "20b0"),
    "nic": ("020000", "15b3", "101d"),
}


class _Plan(msgspec.Struct, frozen=True):
    sockets: int
    nodes: int
    cores: int
    threads: int
    devices: tuple[tuple[int, DeviceKind], ...]
    memory_bytes: int

    @property
    def node_count(self) -> int:
        return self.sockets * self.nodes

    def cpus_of_core(self, core: int) -> CpuSet:
        """The threads of a core that is counted through the whole machine."""
        total = self.node_count * self.cores
        return CpuSet(core + thread * total for thread in range(self.threads))

    def cpus_of_node(self, node: int) -> CpuSet:
        return CpuSet.union(map(self.cpus_of_core, range(node * self.cores, (node + 1) * self.cores)))


def read(text: str, source: str = "machine") -> Machine:
    """The machine that the line describes."""
    if len(text) > MAX_TEXT:
        raise InputError(source, f"longer than {MAX_TEXT} characters", hint=_EXAMPLE)
    try:
        plan = _plan(" ".join(text.split()))
    except ValueError as error:
        raise InputError(source, str(error), hint=_EXAMPLE) from None
    pci, devices = _devices(plan)
    return Machine(
        architecture="x86_64",
        product="synthetic",
        cpus=_cpus(plan),
        caches=_caches(plan),
        numa=_numa(plan),
        pci=pci,
        devices=devices,
        memory_bytes=plan.memory_bytes * plan.node_count,
    )


def _plan(line: str) -> _Plan:
    if plain := _PLAIN.match(line):
        shape, rest = {"s": int(plain[1]), "c": int(plain[2])}, line[plain.end() :]
    elif counts := _COUNTS.match(line):
        parts = [part.strip() for part in counts[0].split("x")]
        shape, rest = {part[-1]: int(part[:-1]) for part in parts}, line[counts.end() :]
        if len(shape) != len(parts) or not re.fullmatch("s?n?ct?", "".join(shape)):
            raise ValueError(f"{counts[0]!r} does not count s, n, c and t once each in this order")
    else:
        raise ValueError(f"{line[:60]!r} does not begin with the shape of a machine")
    devices, memory = _extras(rest.strip())
    plan = _Plan(
        shape.get("s", 1), shape.get("n", 1), shape["c"], shape.get("t", 1), tuple(sorted(devices)), memory
    )
    _check(plan)
    return plan


def _extras(rest: str) -> tuple[list[tuple[int, DeviceKind]], int]:
    devices: list[tuple[int, DeviceKind]] = []
    memory = 64 << 30
    while rest:
        match = _EXTRA.match(rest)
        if match is None:
            raise ValueError(f"{rest[:60]!r} is neither a device nor an amount of memory")
        if match[3]:
            memory = Quantity.parse(match[3]).value
        else:
            kind: DeviceKind = "gpu" if match[1] == "gpu" else "nic"
            devices += [(int(node), kind) for node in match[2].split(",")]
        rest = rest[match.end() :].lstrip()
    return devices, memory


def _check(plan: _Plan) -> None:
    counts = (plan.sockets, plan.nodes, plan.cores, plan.threads)
    if 0 in counts:
        raise ValueError("a machine has at least one of everything")
    if prod(counts) > MAX_CPUS or plan.node_count > MAX_NODES:
        raise ValueError(f"more than {MAX_CPUS} CPUs or {MAX_NODES} NUMA nodes")
    if len(plan.devices) > MAX_DEVICES:
        raise ValueError(f"more than {MAX_DEVICES} devices")
    if plan.memory_bytes < 0:
        raise ValueError("memory cannot be negative")
    beyond = [node for node, _ in plan.devices if node >= plan.node_count]
    if beyond:
        raise ValueError(f"a device on NUMA node {beyond[0]}, but the nodes are 0 to {plan.node_count - 1}")


def _cpus(plan: _Plan) -> tuple[Cpu, ...]:
    per_socket = plan.nodes * plan.cores
    cpus = []
    for core in range(plan.sockets * per_socket):
        siblings = plan.cpus_of_core(core)
        cpus += [
            Cpu(
                id=cpu,
                package=core // per_socket,
                die=0,
                core=core % per_socket,
                numa=core // plan.cores,
                siblings=siblings,
            )
            for cpu in siblings
        ]
    return tuple(sorted(cpus, key=lambda cpu: cpu.id))


def _caches(plan: _Plan) -> tuple[Cache, ...]:
    cores = [plan.cpus_of_core(core) for core in range(plan.node_count * plan.cores)]
    return (
        *(Cache(1, "Data", cpus, 32 << 10) for cpus in cores),
        *(Cache(1, "Instruction", cpus, 32 << 10) for cpus in cores),
        *(Cache(2, "Unified", cpus, 1 << 20) for cpus in cores),
        *(Cache(3, "Unified", plan.cpus_of_node(node), 32 << 20) for node in range(plan.node_count)),
    )


def _numa(plan: _Plan) -> tuple[NumaNode, ...]:
    nodes = []
    for node in range(plan.node_count):
        cpus = plan.cpus_of_node(node)
        distances = tuple((other, _distance(plan, node, other)) for other in range(plan.node_count))
        nodes.append(
            NumaNode(node, cpus, plan.memory_bytes, distances=distances, kind="dram", nearest_cpus=cpus)
        )
    return tuple(nodes)


def _distance(plan: _Plan, node: int, other: int) -> int:
    if node == other:
        return 10
    return 12 if node // plan.nodes == other // plan.nodes else 21


def _devices(plan: _Plan) -> tuple[tuple[PciDevice, ...], tuple[Device, ...]]:
    """One root port per NUMA node that has devices, in a PCI domain of its own, and the devices below it."""
    pci: list[PciDevice] = []
    devices: list[Device] = []
    names = dict.fromkeys(_FUNCTIONS, 0)
    slots: dict[int, int] = {}
    for node, kind in plan.devices:
        cpus = plan.cpus_of_node(node)
        port = f"{node:04x}:00:00.0"
        if node not in slots:
            pci.append(PciDevice(port, "060400", "8086", "347a", "pcieport", node, cpus))
        slot = slots[node] = slots.get(node, -1) + 1
        address = f"{node:04x}:{1 + slot // 32:02x}:{slot % 32:02x}.0"
        pci.append(PciDevice(address, *_FUNCTIONS[kind], numa=node, local_cpus=cpus, parent=port))
        devices.append(Device(f"{kind.upper()}{names[kind]}", kind, address, cpus, node))
        names[kind] += 1
    return tuple(sorted(pci, key=lambda function: function.address)), tuple(devices)
