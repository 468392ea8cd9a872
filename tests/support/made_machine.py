"""Small made-up captures of /sys and /proc, written from a table of paths and contents."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"

# A value is the content of a file; one that begins with an arrow is the target of a link.
Files = Mapping[str, str]


def write(root: Path, files: Files) -> Path:
    """Write the files (and links) below `root`."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith("->"):
            path.symlink_to(content[2:])
        else:
            path.write_bytes(content.encode("utf-8", "surrogateescape"))
    return root


def two_nodes() -> dict[str, str]:
    """Two packages of two cores with two threads, a NUMA node each, one L3 each."""
    files = {f"{CPU}/online": "0-7\n", f"{NODE}/online": "0-1\n", "proc/meminfo": "MemTotal: 2048 kB\n"}
    for cpu in range(8):
        package, core = cpu % 2, cpu // 2 % 2
        threads = [package + 2 * core, package + 2 * core + 4]
        files |= cpu_files(cpu, package=package, core=core, threads=threads)
        files |= cache_files(cpu, 0, level=1, kind="Data", cpus=threads, size="32K")
        files |= cache_files(cpu, 3, level=3, kind="Unified", cpus=range(package, 8, 2), size="1024K")
    for node in range(2):
        distances = "10 21" if node == 0 else "21 10"
        files |= node_files(node, cpus=range(node, 8, 2), memory_kb=1024, distances=distances)
    return files


def cpu_files(cpu: int, *, package: int, core: int, threads: list[int]) -> dict[str, str]:
    folder = f"{CPU}/cpu{cpu}/topology"
    return {
        f"{folder}/physical_package_id": f"{package}\n",
        f"{folder}/core_id": f"{core}\n",
        f"{folder}/thread_siblings": mask(threads),
    }


def cache_files(
    cpu: int, index: int, *, level: int, kind: str, cpus: range | list[int], size: str
) -> dict[str, str]:
    folder = f"{CPU}/cpu{cpu}/cache/index{index}"
    return {
        f"{folder}/level": f"{level}\n",
        f"{folder}/type": f"{kind}\n",
        f"{folder}/size": f"{size}\n",
        f"{folder}/shared_cpu_map": mask(cpus),
    }


def node_files(node: int, *, cpus: range | list[int], memory_kb: int, distances: str) -> dict[str, str]:
    folder = f"{NODE}/node{node}"
    return {
        f"{folder}/cpumap": mask(cpus),
        f"{folder}/meminfo": f"Node {node} MemTotal: {memory_kb} kB\n",
        f"{folder}/distance": f"{distances}\n",
    }


def pci_files(path: str, *, class_code: str, vendor: str = "0x8086", node: int = 0) -> dict[str, str]:
    """A function at a path such as `pci0000:00/0000:00:01.0`, with its entry in the list of the bus."""
    folder = f"sys/devices/{path}"
    address = os.path.basename(path)  # noqa: PTH119 - a path inside the capture, not on this machine
    return {
        f"{folder}/class": f"{class_code}\n",
        f"{folder}/vendor": f"{vendor}\n",
        f"{folder}/device": "0x0001\n",
        f"{folder}/numa_node": f"{node}\n",
        f"{folder}/local_cpulist": "0,2,4,6\n",
        f"sys/bus/pci/devices/{address}": f"->../../../devices/{path}",
    }


def mask(cpus: range | list[int]) -> str:
    """Numbers in the kernel's mask form, in words of 32 bits."""
    bits = sum(1 << cpu for cpu in cpus)
    words = [f"{bits >> shift & 0xFFFFFFFF:08x}" for shift in range(0, max(bits.bit_length(), 1), 32)]
    return ",".join(reversed(words)) + "\n"
