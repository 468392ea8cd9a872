"""Machines made up from one line, for examples, the lab and tests.

Two forms, blanks anywhere between the parts:

    2x14                                        2 NUMA nodes of 14 CPUs, each its own socket
    2s x 2n x 16c x 2t +gpu@0,2 +nic@1 mem=64Gi

In the second, `s` counts sockets, `n` NUMA nodes in each socket, `c` cores in each node and `t` threads in each
core; whatever is left out is 1, except the cores. `+gpu@` and `+nic@` put one device on each NUMA node listed
(a node may be listed again for another one). Devices of a node hang below one PCIe switch, unless letters name several:
those on `0a,0a,0b` are two behind one switch and one behind another. `mem=` is the memory of each node, or a list with one
amount for each, 64Gi if not given.

CPUs are numbered as Linux does on most servers: the first threads of all cores, node after node, then the
second threads in the same order. Distances are 10 within a node, 12 within a socket, 21 or `dist=` between sockets. The guide
has a page on all of it (docs/machines.md).
"""

from __future__ import annotations

import re
from math import prod

import msgspec

from numaware.errors import InputError
from numaware.machine.cpuset import CpuSet
from numaware.machine.quantity import Quantity
from numaware.machine.topology import Cache, Cpu, Device, DeviceKind, Machine, NumaNode, PciDevice
from numaware.sentence import Sentence

MAX_CPUS = 8_192
MAX_NODES = 1_024
MAX_DEVICES = 1_024
MAX_TEXT = 20_000
# What a node has where nothing else is said.
ASSUMED_MEMORY = 64 << 30

# Switches have eight buses each, and a bus 32 slots.
_MOST_BEHIND_SWITCHES = 7 * 32
_EXAMPLE = "write it like 2x14 or 2s x 2n x 16c x 2t +gpu@0,2 mem=64Gi"
_PLAIN = re.compile(r"(\d{1,6}) ?x ?(\d{1,6})", re.ASCII)
_COUNTS = re.compile(r"\d{1,6}[snct](?: ?x ?\d{1,6}[snct])*", re.ASCII)
_EXTRA = re.compile(
    r"\+ ?(gpu|nic) ?@ ?(\d{1,6}[a-z]?(?: ?, ?\d{1,6}[a-z]?)*)"
    r"|mem ?= ?([0-9A-Za-z.+-]{1,40}(?: ?, ?[0-9A-Za-z.+-]{1,40})*)|dist ?= ?(\d{1,3})",
    re.ASCII,
)
# Kind -> PCI class, vendor and device: an A100 and a ConnectX-6 Dx stand for all GPUs and NICs.
_FUNCTIONS: dict[DeviceKind, tuple[str, str, str]] = {
    "gpu": ("030200", "10de", "20b0"),
    "nic": ("020000", "15b3", "101d"),
}


class _Plan(msgspec.Struct, frozen=True):
    """The counts; `devices` as (NUMA node, kind, letter of its switch or ""), `memory` one amount or one for each node."""

    sockets: int
    nodes: int
    cores: int
    threads: int
    devices: tuple[tuple[int, DeviceKind, str], ...] = ()
    memory: tuple[int, ...] = (ASSUMED_MEMORY,)
    far: int = 21

    @property
    def node_count(self) -> int:
        return self.sockets * self.nodes

    def memory_of(self, node: int) -> int:
        return self.memory[node] if len(self.memory) > 1 else self.memory[0]

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
        memory_bytes=sum(map(plan.memory_of, range(plan.node_count))),
    )


def assumes_memory(text: str) -> bool:
    """Whether the memory of a machine in short form is made up: for whoever tells what rests on it."""
    return "mem" not in text


def memory_note() -> Sentence:
    """What is told of such a machine where its memory matters."""
    return Sentence(
        "each NUMA node is assumed to have {size} GiB of memory; mem= says how much it has",
        size=ASSUMED_MEMORY >> 30,
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
    plan = _with_extras(
        _Plan(shape.get("s", 1), shape.get("n", 1), shape["c"], shape.get("t", 1)), rest.strip()
    )
    _check(plan)
    return plan


def _with_extras(plan: _Plan, rest: str) -> _Plan:
    devices: list[tuple[int, DeviceKind, str]] = []
    while rest:
        match = _EXTRA.match(rest)
        if match is None:
            raise ValueError(f"{rest[:60]!r} is neither a device nor an amount of memory nor a distance")
        if match[3]:
            memory = tuple(Quantity.parse(amount.strip()).value for amount in match[3].split(","))
            plan = msgspec.structs.replace(plan, memory=memory)
        elif match[4]:
            plan = msgspec.structs.replace(plan, far=int(match[4]))
        else:
            kind: DeviceKind = "gpu" if match[1] == "gpu" else "nic"
            places = [place.strip() for place in match[2].split(",")]
            devices += [
                (int(place.rstrip("abcdefghijklmnopqrstuvwxyz")), kind, place.lstrip("0123456789"))
                for place in places
            ]
        rest = rest[match.end() :].lstrip()
    return msgspec.structs.replace(plan, devices=tuple(sorted(devices)))


def _check(plan: _Plan) -> None:
    counts = (plan.sockets, plan.nodes, plan.cores, plan.threads)
    if 0 in counts:
        raise ValueError("a machine has at least one of everything")
    if prod(counts) > MAX_CPUS or plan.node_count > MAX_NODES:
        raise ValueError(f"more than {MAX_CPUS} CPUs or {MAX_NODES} NUMA nodes")
    if len(plan.devices) > MAX_DEVICES:
        raise ValueError(f"more than {MAX_DEVICES} devices")
    if min(plan.memory) < 0:
        raise ValueError("memory cannot be negative")
    if len(plan.memory) not in (1, plan.node_count):
        raise ValueError(f"{len(plan.memory)} amounts of memory for {plan.node_count} NUMA nodes")
    if not 10 <= plan.far <= 254:
        raise ValueError(f"a distance of {plan.far}; firmware has 10 to 254")
    if any(switch for _, _, switch in plan.devices) and len(plan.devices) > _MOST_BEHIND_SWITCHES:
        raise ValueError(f"more than {_MOST_BEHIND_SWITCHES} devices on switches with letters")
    beyond = [node for node, _, _ in plan.devices if node >= plan.node_count]
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
            NumaNode(node, cpus, plan.memory_of(node), distances=distances, kind="dram", nearest_cpus=cpus)
        )
    return tuple(nodes)


def _distance(plan: _Plan, node: int, other: int) -> int:
    if node == other:
        return 10
    return 12 if node // plan.nodes == other // plan.nodes else plan.far


def _devices(plan: _Plan) -> tuple[tuple[PciDevice, ...], tuple[Device, ...]]:
    """A PCI domain for each NUMA node; in it a root port for each switch, on a bus of its own, and the devices below it."""
    pci: list[PciDevice] = []
    devices: list[Device] = []
    names = dict.fromkeys(_FUNCTIONS, 0)
    slots: dict[str, int] = {}
    for node, kind, switch in plan.devices:
        cpus = plan.cpus_of_node(node)
        bus = 0x20 + 8 * (ord(switch) - ord("a")) if switch else 0
        port = f"{node:04x}:{bus:02x}:00.0"
        if port not in slots:
            pci.append(PciDevice(port, "060400", "8086", "347a", "pcieport", node, cpus))
        slot = slots[port] = slots.get(port, -1) + 1
        address = f"{node:04x}:{bus + 1 + slot // 32:02x}:{slot % 32:02x}.0"
        pci.append(PciDevice(address, *_FUNCTIONS[kind], numa=node, local_cpus=cpus, parent=port))
        devices.append(Device(f"{kind.upper()}{names[kind]}", kind, address, cpus, node))
        names[kind] += 1
    return tuple(sorted(pci, key=lambda function: function.address)), tuple(devices)
