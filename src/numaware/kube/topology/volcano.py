"""Volcano's Numatopology objects (nodeinfo.volcano.sh/v1alpha1), read and written.

They tell the CPU and Topology Managers' policies, where each CPU sits, which are not handed out, and how many the system
keeps, but not which: Volcano works that out as a kubelet would, and so does this reader. Of memory and devices they tell
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from numaware.kube.decoding import DecodeError, Metadata, OwnerReference, Reader, Wire, node_owner
from numaware.kube.resources import NUMATOPOLOGIES
from numaware.kube.topology.publish import object_head
from numaware.kube.topology.report import Report, check_numa_ids
from numaware.machine.cpuset import MAX_ID, CpuSet, list_form
from numaware.machine.node_topology import (
    CPU_MANAGER_POLICY,
    POLICIES,
    TOPOLOGY_MANAGER_POLICY,
    CpuDetail,
    Numatopology,
    ZoneCounts,
    read_numatopology,
)
from numaware.machine.quantity import Quantity
from numaware.machine.words import printable
from numaware.twin.account import cpu_owners
from numaware.twin.config import KubeletConfig
from numaware.twin.errors import StartError
from numaware.twin.hardware import CpuPlace, Hardware, Layout, NumaHardware, layout
from numaware.twin.kubelet import start
from numaware.twin.node import Node

_POLICIES = {
    CPU_MANAGER_POLICY: ("none", "static"),
    TOPOLOGY_MANAGER_POLICY: POLICIES,
}


def decode(raw: bytes | msgspec.Raw) -> Report:
    """The report of one object; `DecodeError` only if not even the name of its node can be read."""
    name = _NUMATOPOLOGY.name_of(raw)
    try:
        wire = _NUMATOPOLOGY.read(raw)
    except DecodeError as error:
        return Report(name, "", "volcano", problem=error.message)
    try:
        return _report(wire.metadata, read_numatopology({"spec": wire.spec}).sound())
    except ValueError as error:
        problem = printable(" ".join(str(error).split()), 400)
        return Report(name, wire.metadata.resource_version, "volcano", problem=problem)


def encode(
    name: str, node: Node, *, owner: OwnerReference | None = None, timestamp: str = ""
) -> dict[str, Any]:
    """The object of the node called `name`; Volcano expects a `timestamp` with every change."""
    kubelet, state = node.kubelet, node.state
    head = object_head(NUMATOPOLOGIES, name, owner)
    if timestamp:
        head["metadata"]["annotations"] = {"timestamp": timestamp}
    owned = 0
    allocations = []
    for uid, containers in cpu_owners(node).items():
        pod = state.pods.get(uid)
        for cpus in containers.values():
            owned |= cpus
        allocations.append(
            {
                "uid": uid,
                "namespace": pod.namespace if pod else "",
                "name": pod.name if pod else "",
                "containerAllocations": [
                    {"name": container, "allocations": {"cpu": list_form(cpus)}}
                    for container, cpus in sorted(containers.items())
                ],
            }
        )
    # What Volcano subtracts it picks itself, lowest first; the number is all that it can be told.
    reserved = kubelet.cpus.reserved.bit_count() if kubelet.cpus else 0
    return {
        **head,
        "spec": {
            "policies": {
                CPU_MANAGER_POLICY: kubelet.config.cpu_policy,
                TOPOLOGY_MANAGER_POLICY: kubelet.config.topology_policy,
            },
            "resReserved": {"cpu": str(reserved)},
            "numares": {
                "cpu": {
                    "allocatable": list_form(kubelet.layout.all_cpus & ~owned),
                    "capacity": kubelet.layout.cpu_count,
                }
            },
            "cpuDetail": _details(kubelet.hardware, kubelet.layout),
            "podAllocations": sorted(
                allocations, key=lambda entry: (entry["namespace"], entry["name"], entry["uid"])
            ),
        },
    }


def _details(hardware: Hardware, places: Layout) -> dict[str, dict[str, int]]:
    """Where each CPU sits; a core goes by its lowest CPU, since Volcano takes its number to be the machine's own."""
    core_of = {cpu: core.first() for core in map(CpuSet.from_mask, places.cores) for cpu in core}
    return {
        str(cpu.id): {"numa": numa.id, "socket": cpu.socket, "core": core_of[cpu.id]}
        for numa in hardware.numa
        for cpu in numa.cpus
    }


def _report(metadata: Metadata, spec: Numatopology) -> Report:
    policies: dict[str, str | None] = {}
    for name, known in _POLICIES.items():
        policies[name] = spec.policies.get(name)
        if policies[name] is not None and policies[name] not in known:
            raise ValueError(
                f"unknown {name} {printable(str(policies[name]), 80)!r} (known: {', '.join(known)})"
            )
    hardware = _hardware(spec.cpu_detail)
    places = layout(hardware.numa)
    free = CpuSet.parse(spec.numares["cpu"].allocatable).mask if "cpu" in spec.numares else None
    if free is None:
        raise ValueError("numares lists no cpu")
    if free & ~places.all_cpus:
        raise ValueError(f"CPUs {list_form(free & ~places.all_cpus)} are in numares and not in cpuDetail")
    reserved = _reserved(hardware, spec.res_reserved.get("cpu", "0"))
    manager = policies[CPU_MANAGER_POLICY] != "none"
    zones = tuple(
        ZoneCounts(
            numa.id,
            (("cpu", cpus.bit_count()),),
            (("cpu", (cpus & ~reserved).bit_count() if manager else 0),),
            (("cpu", (cpus & free & ~reserved).bit_count() if manager else 0),),
        )
        for numa, cpus in zip(hardware.numa, places.node_cpus, strict=True)
    )
    sizes = {core.bit_count() for core in places.cores}
    return Report(
        node=metadata.name,
        version=metadata.resource_version,
        publisher="volcano",
        zones=zones,
        policy=policies[TOPOLOGY_MANAGER_POLICY],
        cpu_policy=policies[CPU_MANAGER_POLICY],
        threads=sizes.pop() if len(sizes) == 1 else None,
        owner=node_owner(metadata),
    )


def _hardware(details: Mapping[str, CpuDetail]) -> Hardware:
    numa: dict[int, list[CpuPlace]] = {}
    for text, detail in details.items():
        if not (text.isascii() and text.isdigit()) or len(text) > 5 or int(text) > MAX_ID:
            raise ValueError(f"{printable(text, 80)!r} in cpuDetail is no CPU")
        if min(detail.numa, detail.socket, detail.core) < 0:
            raise ValueError(f"CPU {text} sits on a NUMA node, socket or core below zero")
        numa.setdefault(detail.numa, []).append(CpuPlace(int(text), detail.core, detail.socket))
    if not numa:
        raise ValueError("cpuDetail lists no CPU")
    check_numa_ids(numa)
    return Hardware(
        tuple(
            NumaHardware(number, tuple(sorted(places, key=lambda place: place.id)))
            for number, places in sorted(numa.items())
        )
    )


def _reserved(hardware: Hardware, text: str) -> int:
    """The CPUs that a kubelet would keep for the system, if nobody told it which."""
    quantity = Quantity.parse(text)
    if quantity.nano <= 0:
        return 0
    config = KubeletConfig(cpu_policy="static", kube_reserved=(("cpu", quantity),))
    try:
        manager = start(hardware, config).cpus
    except StartError as error:
        raise ValueError(f"resReserved: {error.message}") from None
    return manager.reserved if manager else 0


class _Object(Wire):
    metadata: Metadata
    spec: Any


_NUMATOPOLOGY = Reader(NUMATOPOLOGIES.kind, _Object)
