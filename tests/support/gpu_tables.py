"""Tables of `nvidia-smi topo` as the nearness of GPUs: real machines, of which no PCIe tree was captured."""

from __future__ import annotations

import re

from numaware.machine.nearness import RANKS, Gap, Nearness, numa_distance, numa_distances
from numaware.machine.topology import Machine

_NVLINK = re.compile(r"NV(\d{1,3})", re.ASCII)


def of_table(machine: Machine) -> Nearness:
    """The nearness of the GPUs in a table of `nvidia-smi topo`.

    A pair with NVLinks shows nothing of its PCIe: on one NUMA node it counts as PIX, between two as SYS.
    """
    gpus = [device for device in machine.devices if device.kind == "gpu"]
    words = {frozenset((link.a, link.b)): link.type for link in machine.links}
    distances = numa_distances(machine)
    nvlinks: dict[frozenset[str], int] = {}
    gaps = {}
    for row, a in enumerate(gpus):
        for column, b in enumerate(gpus):
            pair = frozenset((a.name, b.name))
            word = words.get(pair, "SYS")
            if match := _NVLINK.fullmatch(word):
                nvlinks[pair] = int(match[1])
                word = "PIX" if a.numa == b.numa else "SYS"
            gaps[row, column] = Gap(numa_distance(distances, a.numa, b.numa), RANKS.get(word, RANKS["SYS"]))
    nodes = {gpu.name: gpu.numa for gpu in gpus}
    return Nearness(nodes, {gpu.name: row for row, gpu in enumerate(gpus)}, gaps, nvlinks)
