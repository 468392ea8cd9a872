"""A machine written out as the kernel would show it: the folders of /sys and /proc that discovery and a kubelet read."""

from __future__ import annotations

from pathlib import Path

from numaware.machine.closeness import way_up
from numaware.machine.cpuset import CpuSet
from numaware.machine.topology import Machine, NumaNode

NODE = "sys/devices/system/node"
CPU = "sys/devices/system/cpu"
# Counted in the kernel's ticks of a hundredth of a second; CPU n has n times as many.
MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")


def write(root: Path, machine: Machine) -> Path:
    """Write the machine below `root`, with counters that tell its nodes apart; returns `root`."""
    _cpus(root, machine)
    _nodes(root, machine)
    _pci(root, machine)
    _proc(root, machine)
    return root


def numastat(node: int) -> dict[str, int]:
    """What the made kernel has counted on a node, in pages."""
    names = ("numa_hit", "numa_miss", "numa_foreign", "interleave_hit", "local_node", "other_node")
    return {name: 1000 * (node + 1) + place for place, name in enumerate(names)}


def meminfo(node: NumaNode) -> dict[str, int]:
    """What the made kernel says of a node's memory, in kB."""
    total = (node.memory_bytes or 0) >> 10
    pages = sum(pool.size_bytes * pool.total for pool in node.hugepages) >> 10
    free = (total - pages) // 2
    return {
        "MemTotal": total,
        "MemFree": free,
        "MemUsed": total - free,
        "Active(file)": 4000 + node.id,
        "Inactive(file)": 2000 + node.id,
        "FilePages": 7000 + node.id,
        "AnonPages": 3000 + node.id,
        "Slab": 1200 + node.id,
        "SReclaimable": 800 + node.id,
        "SUnreclaim": 400,
    }


def _put(path: Path, text: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="utf-8")


def _cpus(root: Path, machine: Machine) -> None:
    folder = root / CPU
    everyone = CpuSet(cpu.id for cpu in machine.cpus)
    for name in ("possible", "present"):
        _put(folder / name, everyone)
    _put(folder / "online", machine.online)
    for cpu in machine.cpus:
        place = folder / f"cpu{cpu.id}"
        place.mkdir(parents=True)
        if cpu.id:
            _put(place / "online", int(cpu.online))
        if not cpu.online:
            continue
        package = CpuSet(other.id for other in machine.cpus if other.package == cpu.package)
        _put(place / "topology/physical_package_id", cpu.package)
        _put(place / "topology/die_id", cpu.die or 0)
        _put(place / "topology/core_id", cpu.core)
        for name, cpus in (("thread_siblings", cpu.siblings), ("core_siblings", package)):
            _put(place / f"topology/{name}_list", cpus)
            _put(place / f"topology/{name}", _mask(cpus))
    for number, cache in enumerate(machine.caches):
        for cpu_id in cache.cpus:
            place = folder / f"cpu{cpu_id}/cache"
            index = len(list(place.glob("index*"))) if place.exists() else 0
            _put(place / f"index{index}/level", cache.level)
            _put(place / f"index{index}/type", cache.type)
            _put(place / f"index{index}/size", f"{(cache.size_bytes or 0) >> 10}K")
            _put(place / f"index{index}/id", number)
            _put(place / f"index{index}/shared_cpu_list", cache.cpus)
            _put(place / f"index{index}/shared_cpu_map", _mask(cache.cpus))


def _nodes(root: Path, machine: Machine) -> None:
    folder = root / NODE
    (root / "sys/kernel/mm/hugepages").mkdir(parents=True)
    ids = CpuSet(node.id for node in machine.numa)
    for name in ("online", "possible", "has_memory", "has_normal_memory"):
        _put(folder / name, ids)
    _put(folder / "has_cpu", CpuSet(node.id for node in machine.numa if node.cpus))
    for node in machine.numa:
        place = folder / f"node{node.id}"
        _put(place / "cpulist", node.cpus)
        _put(place / "cpumap", _mask(node.cpus))
        _put(place / "distance", " ".join(str(distance) for _, distance in node.distances))
        lines = [f"Node {node.id} {name}: {size} kB" for name, size in meminfo(node).items()]
        _put(place / "meminfo", "\n".join(lines))
        _put(place / "numastat", "\n".join(f"{name} {count}" for name, count in numastat(node.id).items()))
        for pool in node.hugepages:
            pages = place / f"hugepages/hugepages-{pool.size_bytes >> 10}kB"
            _put(pages / "nr_hugepages", pool.total)
            _put(pages / "free_hugepages", pool.free if pool.free is not None else pool.total)
            _put(pages / "surplus_hugepages", 0)
            everywhere = root / f"sys/kernel/mm/hugepages/hugepages-{pool.size_bytes >> 10}kB/nr_hugepages"
            before = int(everywhere.read_text(encoding="utf-8")) if everywhere.exists() else 0
            _put(everywhere, before + pool.total)
        for cpu in node.cpus:
            (place / f"cpu{cpu}").symlink_to(f"../../cpu/cpu{cpu}")


def _pci(root: Path, machine: Machine) -> None:
    """Functions below their bridges, as the kernel nests them."""
    (root / "sys/bus/pci/devices").mkdir(parents=True)
    functions = {function.address: function for function in machine.pci}
    for function in machine.pci:
        way = way_up(function, functions)[::-1]
        place = "/".join((f"devices/pci{way[0].rpartition(':')[0]}", *way))
        folder = root / "sys" / place
        _put(folder / "class", f"0x{function.class_code}")
        _put(folder / "vendor", f"0x{function.vendor}")
        _put(folder / "device", f"0x{function.device}")
        _put(folder / "numa_node", -1 if function.numa is None else function.numa)
        if function.driver:
            (folder / "driver").symlink_to(f"../../bus/pci/drivers/{function.driver}")
        if function.virtual_function_of:
            (folder / "physfn").symlink_to(f"../{function.virtual_function_of}")
        (root / "sys/bus/pci/devices" / function.address).symlink_to(f"../../../{place}")


def _proc(root: Path, machine: Machine) -> None:
    total = sum(node.memory_bytes or 0 for node in machine.numa) >> 10
    lines = (
        f"MemTotal: {total} kB",
        f"MemFree: {total // 2} kB",
        f"MemAvailable: {total // 2} kB",
        "SwapTotal: 0 kB",
    )
    _put(root / "proc/meminfo", "\n".join(lines))
    _put(
        root / "proc/cpuinfo",
        "\n\n".join(
            f"processor\t: {cpu.id}\nvendor_id\t: GenuineIntel\ncpu MHz\t\t: 2000.000\nphysical id\t: {cpu.package}\n"
            f"core id\t\t: {cpu.core}"
            for cpu in machine.cpus
            if cpu.online
        ),
    )
    ticks = "\n".join(
        f"cpu{cpu.id} " + " ".join(str(100 * (cpu.id + 1) * (place + 1)) for place in range(len(MODES)))
        for cpu in machine.cpus
        if cpu.online
    )
    _put(root / "proc/stat", f"cpu  0 0 0 0 0 0 0 0 0 0\n{ticks}\nintr 0\nctxt 0\nbtime 1700000000")


def _mask(cpus: CpuSet) -> str:
    """The kernel's mask form, in words of 32 bits."""
    bits = cpus.mask
    words = [f"{bits >> shift & 0xFFFFFFFF:08x}" for shift in range(0, max(bits.bit_length(), 1), 32)]
    return ",".join(reversed(words))
