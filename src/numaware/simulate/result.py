"""What one run of the lab came to: the numbers of the contract, how they grew, and what went wrong on the way.

`Run` is exactly one entry of `numaware simulate --json`; everything else is for tables, plots and reports. Only
`decisions_per_second` depends on the clock on the wall: leave it out, and equal inputs give equal bytes.
"""

from __future__ import annotations

import msgspec

from numaware.diagnose.rules.storms import Storm


class Run(msgspec.Struct, frozen=True, rename="camel"):
    """One policy with one seed.

    Allocation is what placed pods had asked for when the last pod had arrived. `aligned_percent` is of the placed pods
    that own CPUs, memory or devices: those on no more NUMA nodes than they need. `stranded_percent` is the free GPU
    capacity (CPU in a cluster without GPUs) that the pods of the trace cannot use, of all there is. `placed_by_size` has
    for each number of GPUs that pods want (`share` for a part of one) how many were placed, and how many came.
    """

    policy: str
    seed: int
    pods_total: int
    pods_placed: int
    kubelet_refusals: int
    aligned_percent: float
    cross_numa_pods: int
    cpu_allocated_percent: float
    memory_allocated_percent: float
    device_allocated_percent: dict[str, float]
    stranded_percent: float
    decisions_per_second: float
    unplaced_by_reason: dict[str, int]
    placed_by_size: dict[str, tuple[int, int]] = {}


class Sample(msgspec.Struct, frozen=True, rename="camel"):
    """The cluster at one moment. `arrived_percent` is what arrived pods asked for, of the cluster's GPUs (or CPUs)."""

    time_ms: int
    arrived: int
    arrived_percent: float
    placed: int
    running: int
    pending: int
    refusals: int
    cpu_percent: float
    memory_percent: float
    device_percent: float
    stranded_percent: float


class Tile(msgspec.Struct, frozen=True, rename="camel"):
    """One node when the last pod had arrived, for a wall of nodes: used and all, in parts of a thousand."""

    node: str
    pods: int
    cpu: int
    memory: int
    device: int | None
    stranded: int


class Talk(msgspec.Struct, frozen=True):
    """What services on all nodes said to each other when the last pod had arrived, modelled, in bytes a second.

    `across` is between NUMA nodes, `planned` what is left of it when agents have made their `moves`.
    """

    total: int = 0
    across: int = 0
    planned: int = 0
    moves: int = 0


class Result(msgspec.Struct, frozen=True, rename="camel"):
    """A run with its history. Waiting is from a pod's arrival to its admission, of the pods that were placed."""

    run: Run
    cluster: str
    trace: str
    nodes: int
    series: tuple[Sample, ...]
    refusals_by_reason: dict[str, int]
    storms: tuple[Storm, ...]
    wait_mean_ms: int
    wait_most_ms: int
    tiles: tuple[Tile, ...]
    talk: Talk = Talk()

    @property
    def refusals_per_thousand(self) -> float:
        """Kubelet refusals for each thousand pods of the trace."""
        return (
            round(1000 * self.run.kubelet_refusals / self.run.pods_total, 2) if self.run.pods_total else 0.0
        )
