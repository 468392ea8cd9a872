"""A machine printed as each tool prints it, so that readers can be tried on any machine and not on samples only."""

from __future__ import annotations

import json
from collections.abc import Callable

from numaware.machine.cpuset import CpuSet
from numaware.machine.topology import Machine, PciDevice
from support.invented_machines import numa_node


def numactl(machine: Machine) -> bytes:
    ids = [node.id for node in machine.numa]
    lines = [f"available: {len(ids)} nodes ({CpuSet(ids)})"]
    for node in machine.numa:
        lines += [
            f"node {node.id} cpus:" + "".join(f" {cpu}" for cpu in node.cpus),
            f"node {node.id} size: {(node.memory_bytes or 0) >> 20} MB",
            f"node {node.id} free: 0 MB",
        ]
    lines += ["node distances:", "node " + "".join(f"{other:4}" for other in ids)]
    lines += [
        f"{node.id:3}: " + "".join(f"{distance:4}" for _, distance in node.distances) for node in machine.numa
    ]
    return "\n".join([*lines, ""]).encode()


def lscpu(machine: Machine) -> bytes:
    """The summary and the table, as in `lscpu; lscpu -p`."""
    lines = [
        f"Architecture:        {machine.architecture}",
        f"CPU(s):              {len(machine.cpus)}",
        f"On-line CPU(s) list: {machine.online}",
        f"NUMA node(s):        {len(machine.numa)}",
        *(f"NUMA node{node.id} CPU(s):   {node.cpus}" for node in machine.numa),
        "# CPU,Core,Socket,Node,,L1d,L1i,L2,L3",
    ]
    shared = [(1, "Data"), (1, "Instruction"), (2, "Unified"), (3, "Unified")]
    groups = [[c.cpus for c in machine.caches if (c.level, c.type) == kind] for kind in shared]
    for cpu in machine.cpus:
        caches = [str(next(i for i, cpus in enumerate(group) if cpu.id in cpus)) for group in groups]
        lines.append(",".join(map(str, (cpu.id, cpu.core, cpu.package, cpu.numa, "", *caches))))
    return "\n".join([*lines, ""]).encode()


def nvidia_smi(machine: Machine) -> bytes:
    names = [device.name for device in machine.devices]
    types = {(link.a, link.b): link.type for link in machine.links}
    lines = ["\t\x1b[4m" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]) + "\x1b[0m"]
    for device in machine.devices:
        pairs = ((device.name, other) for other in names)
        cells = [" X " if a == b else types.get((a, b)) or types.get((b, a), "N/A") for a, b in pairs]
        affinity = (
            [str(device.cpus), str(device.numa), "", "N/A"] if device.kind == "gpu" else ["", "", "", ""]
        )
        lines.append("\t".join([device.name, *cells, *affinity]))
    lines += ["", "Legend:", "", "  X    = Self", "", "NIC Legend:", ""]
    lines += [f"  {device.name}: {device.alias}" for device in machine.devices if device.alias]
    return "\n".join([*lines, ""]).encode()


def hwloc(machine: Machine) -> bytes:
    lines = [
        '<topology version="2.0">',
        f'<object type="Machine" os_index="0" cpuset="{_mask(machine.online)}">',
    ]
    lines.append(f'<info name="Architecture" value="{machine.architecture}"/>')
    for package in machine.packages:
        lines.append(f'<object type="Package" os_index="{package.id}" cpuset="{_mask(package.cpus)}">')
        for number in package.numa:
            node = numa_node(machine, number)
            lines.append(f'<object type="Group" cpuset="{_mask(node.cpus)}">')
            lines.append(
                f'<object type="NUMANode" os_index="{number}" cpuset="{_mask(node.cpus)}" subtype="DRAM" '
                f'local_memory="{node.memory_bytes}"/>'
            )
            lines += [
                f'<object type="L{c.level}{"i" if c.type == "Instruction" else ""}Cache" depth="{c.level}" '
                f'cpuset="{_mask(c.cpus)}" cache_size="{c.size_bytes}" '
                f'cache_type="{("Unified", "Data", "Instruction").index(c.type)}"/>'
                for c in machine.caches
                if c.cpus <= node.cpus
            ]
            for siblings in dict.fromkeys(cpu.siblings for cpu in machine.cpus if cpu.numa == number):
                core = next(cpu.core for cpu in machine.cpus if cpu.id in siblings)
                lines.append(f'<object type="Core" os_index="{core}" cpuset="{_mask(siblings)}">')
                lines += [
                    f'<object type="PU" os_index="{cpu}" cpuset="{_mask(CpuSet([cpu]))}"/>'
                    for cpu in siblings
                ]
                lines.append("</object>")
            lines += _pci_objects(machine, number)
            lines.append("</object>")
        lines.append("</object>")
    lines.append("</object>")
    ids = " ".join(str(node.id) for node in machine.numa)
    values = " ".join(str(distance) for node in machine.numa for _, distance in node.distances)
    lines.append(f'<distances2 type="NUMANode" nbobjs="{len(machine.numa)}" kind="5" indexing="os">')
    lines.append(f"<indexes>{ids}</indexes><u64values>{values}</u64values></distances2></topology>")
    return "\n".join(lines).encode()


def _pci_objects(machine: Machine, numa: int) -> list[str]:
    lines = []
    for bridge in machine.pci:
        if bridge.parent is None and bridge.numa == numa:
            lines.append(_pci_object("Bridge", bridge))
            for function in machine.pci:
                if function.parent == bridge.address:
                    lines.append(_pci_object("PCIDev", function))
                    lines += [
                        f'<object type="OSDev" name="{device.name}" osdev_type="{1 if device.kind == "gpu" else 2}"/>'
                        for device in machine.devices
                        if device.pci == function.address
                    ]
                    lines.append("</object>")
            lines.append("</object>")
    return lines


def _pci_object(kind: str, function: PciDevice) -> str:
    ids = f"{function.class_code[:4]} [{function.vendor}:{function.device}] [0000:0000] 00"
    return f'<object type="{kind}" pci_busid="{function.address}" pci_type="{ids}">'


def _mask(cpus: CpuSet) -> str:
    """The mask in hwloc's words of 32 bits, the highest first."""
    words = [cpus.mask >> shift & 0xFFFFFFFF for shift in range(0, max(1, cpus.mask.bit_length()), 32)]
    return ",".join(f"0x{word:08x}" for word in reversed(words))


def nccl(machine: Machine) -> bytes:
    lines = ['<system version="1">']
    for node in machine.numa:
        affinity = _mask(node.cpus).replace("0x", "")
        lines.append(f'<cpu numaid="{node.id}" affinity="{affinity}" arch="{machine.architecture}">')
        for bridge in machine.pci:
            if bridge.parent is None and bridge.numa == node.id:
                lines.append(_nccl_pci(bridge))
                for function in machine.pci:
                    if function.parent == bridge.address:
                        lines += [_nccl_pci(function), _nccl_device(machine, function), "</pci>"]
                lines.append("</pci>")
        lines.append("</cpu>")
    return "\n".join([*lines, "</system>"]).encode()


def _nccl_pci(function: PciDevice) -> str:
    return (
        f'<pci busid="{function.address}" class="0x{function.class_code}" vendor="0x{function.vendor}" '
        f'device="0x{function.device}">'
    )


def _nccl_device(machine: Machine, function: PciDevice) -> str:
    device = next(device for device in machine.devices if device.pci == function.address)
    if device.kind == "gpu":
        return f'<gpu dev="{device.name.removeprefix("GPU")}" sm="80"/>'
    return f'<nic><net name="{device.name}" dev="0"/></nic>'


def cadvisor(machine: Machine) -> bytes:
    nodes = []
    for node in machine.numa:
        cores = {cpu.siblings: cpu for cpu in machine.cpus if cpu.numa == node.id}
        nodes.append(
            {
                "node_id": node.id,
                "memory": node.memory_bytes,
                "hugepages": [],
                "distances": [distance for _, distance in node.distances],
                "cores": [
                    {
                        "core_id": cpu.core,
                        "socket_id": cpu.package,
                        "thread_ids": list(siblings),
                        "caches": _cadvisor_caches(machine, siblings),
                    }
                    for siblings, cpu in cores.items()
                ],
                "caches": _cadvisor_caches(machine, node.cpus),
            }
        )
    document = {"num_cores": len(machine.cpus), "memory_capacity": machine.memory_bytes, "topology": nodes}
    return json.dumps(document).encode()


def _cadvisor_caches(machine: Machine, cpus: CpuSet) -> list[dict[str, object]]:
    return [
        {"size": cache.size_bytes, "type": cache.type, "level": cache.level}
        for cache in machine.caches
        if cache.cpus == cpus
    ]


def lspci(machine: Machine) -> bytes:
    """As `lspci -Dvnn`; the bus below a bridge is the one that its functions are on."""
    lines = ["ffff:ff:1f.7 Host bridge [0600]: Somebody Something [8086:2020]", ""]
    below = {function.parent: function.address.split(":")[-2] for function in machine.pci if function.parent}
    for function in machine.pci:
        made = f"[{function.vendor or '0000'}:{function.device or '0000'}]"
        lines.append(
            f"{function.address} Some kind [{function.class_code[:4]}]: Somebody Something {made} (rev a1)"
        )
        lines.append(
            "\tFlags: fast devsel" + (f", NUMA node {function.numa}" if function.numa is not None else "")
        )
        if function.address in below:
            lines.append(
                f"\tBus: primary=00, secondary={below[function.address]}, subordinate=ff, sec-latency=0"
            )
        if function.driver:
            lines.append(f"\tKernel driver in use: {function.driver}")
        lines.append("")
    return "\n".join(lines).encode()


OUTPUTS: dict[str, Callable[[Machine], bytes]] = {
    "numactl": numactl,
    "lscpu": lscpu,
    "nvidia-smi": nvidia_smi,
    "hwloc": hwloc,
    "nccl": nccl,
    "cadvisor": cadvisor,
    "lspci": lspci,
}
