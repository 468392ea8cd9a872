"""The admissions that benchmarks/test_twin.py measures. Run as a program it prints the peak memory of one, in KiB."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

from numaware.twin.node import Node
from numaware.workload.pod import Pod
from support.twin_nodes import GI, GPU, NIC, config, machine, pod

MI = 1 << 20
DAY = 86400.0


class Case(NamedTuple):
    """A machine of `nodes` NUMA nodes with 32 CPUs, 4 GPUs and 4 NICs each, and one pod that comes to it.

    `kubelet` is the kubelet's time in seconds, 0 where nobody measured it; `promise` the most the twin may take.
    """

    name: str
    nodes: int
    policy: str
    pod: Pod
    kubelet: float
    promise: float
    memory: bool = False
    admitted: bool = True


ONE_GPU = pod("u", 4, gpu=1)
FIVE = pod("u", 4, GI, gpu=1, nic=1, huge=4 * MI)
# The CPUs need two nodes, the NICs too, the GPU one: no mask is preferred by all.
APART = pod("u", 40, GI, gpu=1, nic=5, huge=4 * MI)

CASES = (
    Case("2 NUMA, best-effort, cpu+gpu", 2, "best-effort", ONE_GPU, 0.73e-3, 0.73e-3 / 2),
    Case("2 NUMA, restricted, cpu+gpu+memory", 2, "restricted", ONE_GPU, 1.05e-3, 1.05e-3 / 2, memory=True),
    Case("4 NUMA, restricted, five resources", 4, "restricted", FIVE, 504e-3, 504e-3 / 50, memory=True),
    Case("8 NUMA, restricted, cpu", 8, "restricted", pod("u", 4), 20e-3, 20e-3 / 10),
    Case("8 NUMA, restricted, cpu+gpu", 8, "restricted", ONE_GPU, 54e-3, 54e-3 / 50),
    Case("8 NUMA, restricted, cpu+memory", 8, "restricted", pod("u", 4), 36e-3, 36e-3 / 10, memory=True),
    Case("8 NUMA, restricted, cpu+gpu+memory", 8, "restricted", ONE_GPU, 6.5, 6.5 / 1000, memory=True),
    Case(
        "8 NUMA, single-numa-node, five resources",
        8,
        "single-numa-node",
        FIVE,
        27e-3,
        27e-3 / 10,
        memory=True,
    ),
    Case("8 NUMA, restricted, five resources", 8, "restricted", FIVE, 3.7 * DAY, 50e-3, memory=True),
    Case("8 NUMA, best-effort, five, none preferred", 8, "best-effort", APART, 3.7 * DAY, 50e-3, memory=True),
    Case("16 NUMA, restricted, five resources", 16, "restricted", FIVE, 0, 1, memory=True),
    Case("16 NUMA, best-effort, five, none preferred", 16, "best-effort", APART, 0, 1, memory=True),
    Case("16 NUMA, restricted, five, refused", 16, "restricted", APART, 0, 1, memory=True, admitted=False),
)


def node_of(case: Case) -> Node:
    devices = {
        name: {f"{name}-{number:03}": (number // 4,) for number in range(4 * case.nodes)}
        for name in (GPU, NIC)
    }
    hardware = machine(case.nodes, 32, threads=2, hugepages=4 * GI, devices=devices)
    options = (("max-allowable-numa-nodes", "16"),) if case.nodes > 8 else ()
    return Node.fresh(hardware, config(case.policy, memory=case.memory, topology_options=options))


if __name__ == "__main__":
    case = CASES[int(sys.argv[1])]
    node_of(case).admit(case.pod)
    # The process's own peak: getrusage would count that of the one it was forked from.
    peak = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    print(peak[1] if peak else "")  # noqa: T201 - what its caller asks for
