"""Invented results of the lab: policies that differ in a way that is known beforehand, for pages and plots."""

from __future__ import annotations

from numaware.diagnose.rules.storms import Storm
from numaware.simulate.result import Result, Run, Sample, Tile

# policy: (refusals, GPUs allocated in tenths of a percent, stranded likewise)
OUTCOMES = {
    "numaware": (0, 953, 21),
    "kube-scheduler": (412, 881, 94),
    "scheduler-plugins": (37, 902, 71),
    "volcano": (88, 897, 78),
    "kai": (141, 905, 69),
    "koordinator": (64, 911, 62),
    "fgd": (203, 948, 25),
    "best-fit": (388, 935, 40),
    "random": (451, 862, 118),
}
PODS = 8152


def result(
    policy: str = "numaware",
    seed: int = 1,
    *,
    speed: float = 12_345.6,
    nodes: int = 120,
    gpus: bool = True,
    cluster: str = "gpu-pool",
    trace: str = "trainings",
) -> Result:
    """What a policy came to; another seed moves every number a little."""
    refusals, allocated, stranded = OUTCOMES.get(policy, (9, 900, 80))
    shift = (seed * 37 + len(policy)) % 11 - 5
    refused = max(0, refusals + 3 * shift) if refusals else 0
    device = (allocated + shift) / 10
    lost = (stranded + shift) / 10
    placed = PODS - 20 * (1000 - allocated) // 10 + shift
    series = []
    for step in range(0, 201, 4):
        load = 130 * step / 200
        knee = device * 0.9
        share = load if load <= knee else device - (device - knee) * ((130 - load) / (130 - knee)) ** 3
        series.append(
            Sample(
                time_ms=step * 40_000,
                arrived=PODS * step // 200,
                arrived_percent=load,
                placed=placed * step // 200,
                running=placed * step // 200,
                pending=0,
                refusals=refused * step // 200,
                cpu_percent=share * 0.7,
                memory_percent=share * 0.6,
                device_percent=share if gpus else 0.0,
                stranded_percent=lost * (step / 200) ** 3,
            )
        )
    run = Run(
        policy=policy,
        seed=seed,
        pods_total=PODS,
        pods_placed=placed,
        kubelet_refusals=refused,
        aligned_percent=100.0 if policy == "numaware" else 88.4 + shift / 10,
        cross_numa_pods=3 if policy == "numaware" else 240 + shift,
        cpu_allocated_percent=device * 0.7,
        memory_allocated_percent=device * 0.6,
        device_allocated_percent={"gpu": device} if gpus else {},
        stranded_percent=lost,
        decisions_per_second=speed,
        unplaced_by_reason={"Insufficient nvidia.com/gpu": PODS - placed, "Insufficient cpu": 12 + shift},
    )
    storm = Storm("train/ddp-worker", ("gpu-019",), refused // 3, 0, 60_000, "TopologyAffinityError")
    return Result(
        run=run,
        cluster=cluster,
        trace=trace,
        nodes=nodes,
        series=tuple(series),
        refusals_by_reason={"TopologyAffinityError": refused} if refused else {},
        storms=(storm,) if refused else (),
        wait_mean_ms=2500 + 100 * refused,
        wait_most_ms=90_000 + 1000 * refused,
        tiles=tuple(_tile(number, nodes, allocated, stranded, gpus=gpus) for number in range(nodes)),
    )


def _tile(number: int, nodes: int, allocated: int, stranded: int, *, gpus: bool) -> Tile:
    full = number < nodes * (allocated - 150) // 1000
    used = 1000 if full else (number * 7919) % 1000
    return Tile(
        node=f"node-{number:04}",
        pods=used // 100,
        cpu=used * 7 // 10,
        memory=used * 6 // 10,
        device=used if gpus else None,
        stranded=0 if full or number % 3 else min(1000 - used, stranded * 5),
    )


def everything(seeds: int = 1, nodes: int = 120) -> list[Result]:
    """All policies with so many seeds."""
    return [result(policy, seed, nodes=nodes) for policy in OUTCOMES for seed in range(1, seeds + 1)]
