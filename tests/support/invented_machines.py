"""Machines that no vendor makes, with everything a picture or a comparison has to cope with."""

from __future__ import annotations

from typing import Any

import msgspec

from numaware.machine import synthetic
from numaware.machine.cpuset import CpuSet
from numaware.machine.topology import Device, Machine, NumaNode, PciDevice


def numa_node(machine: Machine, number: int) -> NumaNode:
    """The NUMA node with that id."""
    (node,) = (node for node in machine.numa if node.id == number)
    return node


def changed(machine: Machine, **fields: Any) -> Machine:
    return msgspec.structs.replace(machine, **fields)


def with_cpu(machine: Machine, number: int, **fields: Any) -> Machine:
    """The machine with one CPU changed."""
    cpus = [msgspec.structs.replace(cpu, **fields) if cpu.id == number else cpu for cpu in machine.cpus]
    return changed(machine, cpus=tuple(cpus))


def with_node(machine: Machine, number: int, **fields: Any) -> Machine:
    """The machine with one NUMA node changed."""
    nodes = [msgspec.structs.replace(node, **fields) if node.id == number else node for node in machine.numa]
    return changed(machine, numa=tuple(nodes))


def with_memory_node(machine: Machine, kind: str) -> Machine:
    """The machine with one more node that has memory of that kind, no CPUs, and is near node 0."""
    number = len(machine.numa)
    extra = NumaNode(number, memory_bytes=16 << 30, nearest_cpus=machine.numa[0].cpus)
    return changed(machine, numa=(*machine.numa, msgspec.structs.replace(extra, kind=kind)))


def with_switch(machine: Machine) -> Machine:
    """All devices of the machine below one PCIe switch."""
    bridge = PciDevice("0000:00:01.0", "060400", "8086", "352a", "pcieport", 0)
    below = [msgspec.structs.replace(function, parent=bridge.address) for function in machine.pci]
    return changed(machine, pci=(bridge, *below))


def with_virtual_functions(machine: Machine, number: int) -> Machine:
    """The first device of the machine with that many virtual functions."""
    card = next(function for function in machine.pci if function.address == machine.devices[0].pci)
    virtual = tuple(
        msgspec.structs.replace(card, address=f"0000:aa:{index:02x}.0", virtual_function_of=card.address)
        for index in range(number)
    )
    return changed(machine, pci=(*machine.pci, *virtual))


def hostile() -> Machine:
    """Names that try to break out of a terminal, of XML and of their boxes."""
    name = '"><script>alert(1)</script>&\x1b[2J\u202e\ud800' + "W" * 300
    made = synthetic.read("2s x 1n x 2c +gpu@0")
    return changed(
        made,
        vendor=name,
        product=name,
        model=name,
        devices=(Device(name, "nic", None, None, 0), Device(name + "2", "nic", None, None, None)),
        warnings=(name,),
        isolated=CpuSet([0]),
    )
