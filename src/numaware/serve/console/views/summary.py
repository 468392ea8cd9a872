"""A node's line in a list."""

from __future__ import annotations

import msgspec

from numaware.schedule.cluster import Member
from numaware.schedule.room import gpu_resource
from numaware.serve.console.views.strips import Strip
from numaware.serve.console.world import Source
from numaware.twin.account import free_cpus, free_devices


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """A node in a list. What is free has two names: *free to pin* is what a new pod could own, by the kubelet's managers;
    *not requested* is what a scheduler that counts per node has left to give away.
    """

    name: str
    pool: str
    policy: str
    scope: str
    pods: int
    cpus: int
    memory: int
    devices: dict[str, int]
    gpus: int
    allocatable_cpus: int
    free_to_pin_cpus: int
    free_to_pin_devices: dict[str, int]
    free_to_pin_gpus: int
    not_requested_cpus: int
    not_requested_memory: int
    numa: tuple[Strip, ...]
    refusals: int
    storm: bool
    stale: bool
    source: Source
    reported_at: int


def summary_of(member: Member, pool: str, strips: tuple[Strip, ...]) -> Summary:
    """What follows from the node alone, until it changes; refusals and reports are filled in by who knows of them."""
    node, not_requested = member.node, member.not_requested
    inventories = node.kubelet.devices.inventories
    devices = {name: len(inventories[name].ids) for name in sorted(inventories)}
    free = {name: free_devices(node, name).bit_count() for name in devices}
    gpu = gpu_resource(node) or ""
    return Summary(
        name=member.name,
        pool=pool,
        policy=node.kubelet.config.topology_policy,
        scope=node.kubelet.config.topology_scope,
        pods=len(member.pods),
        cpus=node.kubelet.layout.cpu_count,
        memory=sum(numa.memory_bytes for numa in node.kubelet.hardware.numa),
        devices=devices,
        gpus=devices.get(gpu, 0),
        allocatable_cpus=member.allocatable.get("cpu", 0) // 1000,
        free_to_pin_cpus=free_cpus(node).bit_count(),
        free_to_pin_devices=free,
        free_to_pin_gpus=free.get(gpu, 0),
        not_requested_cpus=not_requested.get("cpu", 0) // 1000,
        not_requested_memory=not_requested.get("memory", 0),
        numa=strips,
        refusals=0,
        storm=False,
        stale=False,
        source="modelled",
        reported_at=0,
    )
