"""The OpenB traces of a production GPU cluster: node lists and pod lists in CSV.

The files say nothing about NUMA nodes or kubelets, so both are laid on top, by these rules:

- A node with at least 4 GPUs or at least 64 CPUs has two NUMA nodes, any other has one. Whole CPUs (fractions of a
  node's last CPU are left out), memory and GPUs are split evenly; what cannot be split goes to the lower NUMA node.
- A kubelet that hands out CPUs has to reserve some. One CPU and 1 GiB on NUMA node 0 come on top of what the file
  lists and are reserved, so pods find exactly the capacity of the file. CPUs have one thread.
- With the topology policy `none` a kubelet pins nothing; with any other it pins CPUs (static) and memory (Static).
- Pods of class LS or Guaranteed are Guaranteed, and ask kubelets that pin for whole CPUs (rounded up); all others are
  Burstable: requests without limits, except for GPUs. Where a list has no classes every pod is LS.
- Whole GPUs are `nvidia.com/gpu`; a part of one is a share (`numaware.io/gpu-milli`). A pod's `gpu_spec` is a required
  node affinity on the label `nvidia.com/gpu.product`, which holds a node's model.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from numaware.errors import InputError
from numaware.machine.quantity import Quantity
from numaware.machine.words import printable
from numaware.schedule.room import SHARE_RESOURCE, WHOLE
from numaware.simulate.clusters import MOST_PODS, ClusterSpec, NodeSpec
from numaware.simulate.csv_rows import Row, rows
from numaware.simulate.traces import SECOND, TimedPod, Trace
from numaware.twin.config import KubeletConfig, MemoryReservation
from numaware.twin.hardware import CpuPlace, Hardware, NumaHardware, PluginDevice, PluginResource
from numaware.workload.pod import Container, Pod
from numaware.workload.scheduling import NodeRules, NodeTerm, Requirement, Scheduling

GPU = "nvidia.com/gpu"
MODEL_LABEL = "nvidia.com/gpu.product"
_MIB, _GIB = 1 << 20, 1 << 30
_NANO, _NANO_PER_MILLI = 10**9, 10**6
_GUARANTEED = ("LS", "Guaranteed")
_CLASSES = ("LS", "BE", "Burstable", "Guaranteed", "")
# More than any machine has: what is larger is a mistake in the file.
_MOST_CPUS, _MOST_GPUS, _MOST_MIB = 4096, 64, 1 << 30
_MOST_TIME = 1 << 40

_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")


def nodes(data: bytes, source: str, config: KubeletConfig) -> ClusterSpec:
    """A node list as a cluster whose kubelets all run with `config`, which `kubelet` makes."""
    specs: dict[str, NodeSpec] = {}
    for row in rows(data, source, _NODE_COLUMNS):
        name = row.text("sn")
        if not name or name in specs:
            raise InputError(row.where, f"node {printable(name, 80)!r} has no name or is listed twice")
        model = row.text("model")
        cpus = row.number("cpu_milli", 1000 * _MOST_CPUS) // 1000
        if not cpus:
            raise InputError(row.where, "a node without a whole CPU")
        zones = _zones(cpus, row.number("memory_mib", _MOST_MIB), row.number("gpu", _MOST_GPUS))
        labels = ((MODEL_LABEL, model),) if model else ()
        specs[name] = NodeSpec(
            name,
            hardware(zones, pinned=pins(config)),
            config,
            labels,
            most_pods=max(MOST_PODS, 4 * cpus),
        )
    if not specs:
        raise InputError(source, "lists no nodes")
    return ClusterSpec(source, tuple(specs.values()))


def kubelet(policy: str, scope: str = "container") -> KubeletConfig:
    """The configuration for a topology policy by the rules above."""
    if policy == "none":
        return KubeletConfig()
    kept = Quantity.of(_GIB)
    return KubeletConfig(
        topology_policy=policy,
        topology_scope=scope,
        cpu_policy="static",
        memory_policy="Static",
        kube_reserved=(("memory", kept),),
        reserved_cpus="0",
        reserved_memory=(MemoryReservation(0, (("memory", kept),)),),
    )


def pins(config: KubeletConfig) -> bool:
    """Whether kubelets of this configuration give CPUs of their own."""
    return config.cpu_policy == "static"


def pods(data: bytes, source: str, *, whole_cpus: bool, timed: bool = False) -> Trace:
    """A pod list as a trace: a second apart and never leaving, or, when `timed`, as its columns say."""
    arrivals = []
    names: set[str] = set()
    for index, row in enumerate(rows(data, source, _POD_COLUMNS)):
        pod = _pod(row, whole_cpus=whole_cpus)
        if pod.name in names:
            raise InputError(row.where, f"pod {printable(pod.name, 80)!r} is listed twice")
        names.add(pod.name)
        if timed:
            start = row.number("creation_time", _MOST_TIME)
            begun = row.number("scheduled_time", _MOST_TIME) if row.text("scheduled_time") else start
            end = row.number("deletion_time", _MOST_TIME)
            arrivals.append(TimedPod(pod, pod.name, start * SECOND, max(1, end - begun) * SECOND))
        else:
            arrivals.append(TimedPod(pod, pod.name, index * SECOND))
    if not arrivals:
        raise InputError(source, "lists no pods")
    return Trace(source, tuple(arrivals))


def _split(amount: int, parts: int) -> list[int]:
    """Evenly, what is left over one by one to the lower parts."""
    return [amount // parts + (index < amount % parts) for index in range(parts)]


class ZoneShape(NamedTuple):
    """What one NUMA node offers to pods: CPUs, bytes, and how many devices of each resource."""

    cpus: int
    memory: int
    devices: tuple[tuple[str, int], ...] = ()


@lru_cache(maxsize=1024)
def hardware(zones: tuple[ZoneShape, ...], *, pinned: bool) -> Hardware:
    """A machine of these NUMA nodes; where CPUs are `pinned`, what such a kubelet has to reserve comes on top."""
    numa, first = [], 0
    for node, zone in enumerate(zones):
        reserves = pinned and node == 0
        cpus = range(first, first + zone.cpus + reserves)
        places = tuple(CpuPlace(cpu, cpu, node) for cpu in cpus)
        distances = tuple(10 if other == node else 21 for other in range(len(zones)))
        numa.append(NumaHardware(node, places, zone.memory + reserves * _GIB, (), distances))
        first = cpus.stop
    devices: dict[str, list[PluginDevice]] = {}
    for node, zone in enumerate(zones):
        for name, count in zone.devices:
            kind = name.rpartition("/")[2]
            devices.setdefault(name, []).extend(
                PluginDevice(f"{kind}-{node}-{index:02}", (node,)) for index in range(count)
            )
    return Hardware(
        tuple(numa), tuple(PluginResource(name, tuple(here)) for name, here in devices.items() if here)
    )


def _zones(cpus: int, memory_mib: int, gpus: int) -> tuple[ZoneShape, ...]:
    parts = 2 if gpus >= 4 or cpus >= 64 else 1
    return tuple(
        ZoneShape(count, memory * _MIB, ((GPU, devices),))
        for count, memory, devices in zip(
            _split(cpus, parts), _split(memory_mib, parts), _split(gpus, parts), strict=True
        )
    )


def _pod(row: Row, *, whole_cpus: bool) -> Pod:
    name = row.text("name")
    if not name:
        raise InputError(row.where, "a pod without a name")
    gpus, milli = row.number("num_gpu", _MOST_GPUS), row.number("gpu_milli", WHOLE)
    if (milli and not gpus) or (gpus > 1 and milli != WHOLE):
        raise InputError(row.where, f"{gpus} GPUs with gpu_milli {milli}: only one GPU can be shared")
    qos = row.text("qos")
    if qos not in _CLASSES:
        raise InputError(
            row.where, f"qos is {printable(qos, 40)!r}", hint=f"known: {', '.join(_CLASSES[:-1])}"
        )
    guaranteed = qos in _GUARANTEED or "qos" not in row.fields
    return Pod(
        name,
        uid=f"default/{name}",
        containers=(
            _container(
                row.number("cpu_milli", 1000 * _MOST_CPUS),
                row.number("memory_mib", _MOST_MIB),
                gpus,
                milli,
                guaranteed,
                whole_cpus,
            ),
        ),
        scheduling=_scheduling(row.text("gpu_spec")),
    )


@lru_cache(maxsize=8192)
def _container(
    cpu_milli: int, memory_mib: int, gpus: int, milli: int, guaranteed: bool, whole_cpus: bool
) -> Container:
    """One container; equal pods share it."""
    devices: list[tuple[str, int]] = []
    if gpus and milli in (0, WHOLE):
        devices = [(GPU, gpus * _NANO)]
    elif gpus:
        devices = [(SHARE_RESOURCE, milli * _NANO)]
    if guaranteed and whole_cpus:
        cpu_milli = -(-cpu_milli // 1000) * 1000
    own = [("cpu", cpu_milli * _NANO_PER_MILLI), ("memory", memory_mib * _MIB * _NANO)]
    requests = tuple(sorted(pair for pair in (*own, *devices) if pair[1]))
    return Container("app", requests, requests if guaranteed else tuple(devices))


@lru_cache(maxsize=1024)
def _scheduling(spec: str) -> Scheduling:
    models = tuple(sorted({model for model in spec.split("|") if model}))
    if not models:
        return Scheduling()
    term = NodeTerm((Requirement(MODEL_LABEL, "In", models),))
    return Scheduling(node=NodeRules(required=(term,)))
