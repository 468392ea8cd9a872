"""A machine and its kubelet's configuration as text, and the kubelet that starts from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated

import msgspec

from numaware.machine.cpuset import CpuSet, list_form
from numaware.machine.words import printable
from numaware.twin.config import Amounts, KubeletConfig
from numaware.twin.config_text import ConfigText, ReservationText
from numaware.twin.hardware import (
    CpuPlace,
    DeviceLink,
    Hardware,
    LastCache,
    NumaHardware,
    PluginDevice,
    PluginResource,
)
from numaware.twin.kubelet import Kubelet, start

# Resource -> the position of each device by its name.
DeviceNames = Mapping[str, Mapping[str, int]]

# Every set of NUMA nodes is looked at, in memory that doubles with each: one object must not stop a whole scheduler.
MOST_NUMA = 16
# Kubelets that are kept ready; a large cluster has some thousand nodes, mostly of a few kinds.
_MOST_KUBELETS = 8192


@lru_cache(maxsize=_MOST_KUBELETS)
def decode(machine: str, config: str) -> tuple[Kubelet, DeviceNames]:
    """The started kubelet, and the position of every device by its name.

    Devices have the names their vendor gave them, no two alike in a cluster. Nothing but their order matters to a
    kubelet, so here they are numbered: machines of one kind are then equal, and share every answer.
    """
    found = msgspec.json.decode(machine, type=_Machine)
    if len(found.numa) > MOST_NUMA:
        raise ValueError(f"has {len(found.numa)} NUMA nodes; at most {MOST_NUMA} can be placed by")
    resources = []
    names = {}
    for resource in found.resources:
        ordered = sorted(resource.devices, key=lambda device: device.id)
        names[resource.name] = {device.id: index for index, device in enumerate(ordered)}
        if len(names[resource.name]) < len(ordered):
            raise ValueError(f"a device of {printable(resource.name, 80)} is listed twice")
        numbered = tuple(
            PluginDevice(f"{index:06}", device.numa, device.healthy) for index, device in enumerate(ordered)
        )
        resources.append(PluginResource(resource.name, numbered, resource.prefers))
    numa = tuple(
        NumaHardware(
            node.id,
            tuple(CpuPlace(cpu.id, cpu.core, cpu.socket, cpu.uncore) for cpu in node.cpus),
            node.memory,
            tuple(sorted(node.hugepages.items())),
            node.distances,
        )
        for node in found.numa
    )
    everything = _devices(resources)
    try:
        links = tuple(DeviceLink(everything[link.a], everything[link.b], link.kind) for link in found.links)
    except IndexError:
        raise ValueError("a link to a device that is not listed") from None
    caches = tuple(LastCache(CpuSet.parse(cache.cpus).mask, cache.size) for cache in found.caches)
    hardware = Hardware(numa, tuple(resources), links, caches)
    told = msgspec.json.decode(config, type=_Config)
    gates = tuple(sorted(told.feature_gates.items()))
    return start(hardware, told.configuration(told.version, gates)), names


def _devices(resources: Sequence[PluginResource]) -> list[tuple[str, str]]:
    """All devices in the order that links count them in."""
    return sorted((resource.name, device.id) for resource in resources for device in resource.devices)


def encode_hardware(hardware: Hardware) -> str:
    """A machine as text; equal machines give equal bytes."""
    position = {device: index for index, device in enumerate(_devices(hardware.resources))}
    wire = _Machine(
        tuple(
            _Numa(
                node.id,
                tuple(_Cpu(cpu.id, cpu.core, cpu.socket, cpu.uncore) for cpu in node.cpus),
                node.memory_bytes,
                dict(node.hugepages),
                node.distances,
            )
            for node in hardware.numa
        ),
        tuple(
            _Resource(
                resource.name,
                tuple(_Device(device.id, device.numa, device.healthy) for device in resource.devices),
                resource.prefers,
            )
            for resource in hardware.resources
        ),
        tuple(_Link(position[link.a], position[link.b], link.kind) for link in hardware.links),
        tuple(_Cache(list_form(cache.cpus), cache.size) for cache in hardware.caches),
    )
    return _text(wire)


def encode_config(config: KubeletConfig) -> str:
    """A configuration as text, what is the kubelet's default left out."""
    wire = _Config(
        version=config.version,
        topology_manager_policy=config.topology_policy,
        topology_manager_scope=config.topology_scope,
        topology_manager_policy_options=dict(config.topology_options),
        cpu_manager_policy=config.cpu_policy,
        cpu_manager_policy_options=dict(config.cpu_options),
        memory_manager_policy=config.memory_policy,
        kube_reserved=_texts(config.kube_reserved),
        system_reserved=_texts(config.system_reserved),
        eviction_hard=dict(config.eviction_hard),
        reserved_system_cpus=config.reserved_cpus,
        reserved_memory=tuple(
            ReservationText(entry.numa_node, _texts(entry.limits)) for entry in config.reserved_memory
        ),
        feature_gates=dict(config.feature_gates),
    )
    return _text(wire)


def _texts(amounts: Amounts) -> dict[str, str]:
    return {name: str(quantity) for name, quantity in amounts}


# The wire


def _text(wire: msgspec.Struct) -> str:
    return msgspec.json.encode(wire, order="sorted").decode()


class _Wire(msgspec.Struct, rename="camel", omit_defaults=True):
    """Part of the text: camelCase keys, unknown ones passed over, what goes without saying left out."""


class _Cpu(msgspec.Struct, array_like=True):
    id: int
    core: int
    socket: int
    uncore: int | None = None


class _Numa(_Wire):
    id: int
    cpus: tuple[_Cpu, ...] = ()
    memory: int = 0
    hugepages: dict[str, int] = {}
    distances: tuple[int, ...] = ()


class _Device(msgspec.Struct, array_like=True):
    id: str
    numa: tuple[int, ...] = ()
    healthy: bool = True


class _Resource(_Wire):
    name: str
    devices: tuple[_Device, ...]
    prefers: bool = False


class _Link(msgspec.Struct, array_like=True):
    a: Annotated[int, msgspec.Meta(ge=0)]
    b: Annotated[int, msgspec.Meta(ge=0)]
    kind: Annotated[str, msgspec.Meta(max_length=8)]


class _Cache(msgspec.Struct, array_like=True):
    cpus: str
    size: Annotated[int, msgspec.Meta(ge=0)] = 0


class _Machine(_Wire):
    numa: tuple[_Numa, ...]
    resources: tuple[_Resource, ...] = ()
    links: tuple[_Link, ...] = ()
    caches: tuple[_Cache, ...] = ()


class _Config(ConfigText, frozen=True):
    version: str
    feature_gates: dict[str, bool] = msgspec.field(default_factory=dict)
