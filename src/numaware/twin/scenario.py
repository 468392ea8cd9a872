"""What a recorded kubelet session begins with: a machine, a configuration, and pods and restarts that come in order.

The shape is the recorders' (tests/vectors/README.md): names and nesting stay as they are. A node that a prediction failed
on is written in it too, so that anybody can play it again; what recordings have no place for (gates, the version beside
the configuration, links, caches, a pod's own resources) is added under names that old readers pass over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from numaware.machine.words import printable
from numaware.twin.config import DEFAULT_VERSION, KubeletConfig
from numaware.twin.hardware import (
    CpuPlace,
    DeviceLink,
    Hardware,
    LastCache,
    NumaHardware,
    PluginDevice,
    PluginResource,
)
from numaware.twin.node import Node
from numaware.twin.node_codec import ConfigText, amounts_of
from numaware.workload.demand import quantity_text
from numaware.workload.pod import Container, Pod, Qos, Resources, amount

# The recordings were made with these gates open, so that alpha options can be used in every release.
_GATES = {
    f"{manager}Policy{stage}Options": True
    for manager in ("CPUManager", "TopologyManager")
    for stage in ("", "Alpha", "Beta")
}


class _Wire(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    pass


class _Cpu(_Wire, frozen=True):
    id: int
    core: int
    socket: int
    uncore_cache: int | None = None


class _Numa(_Wire, frozen=True):
    id: int
    memory_bytes: int = 0
    hugepages: dict[str, int] = {}
    distances: tuple[int, ...] = ()
    cpus: tuple[_Cpu, ...] = ()


class _Device(_Wire, frozen=True):
    id: str
    numa: tuple[int, ...] = ()
    unhealthy: bool = False


class _Machine(_Wire, frozen=True):
    """A machine in the shape of the recordings, which have no links and caches."""

    numa: tuple[_Numa, ...]
    devices: dict[str, tuple[_Device, ...]] = {}
    preferred_allocation: tuple[str, ...] = ()
    links: tuple[DeviceLink, ...] = ()
    caches: tuple[LastCache, ...] = ()

    @classmethod
    def of(cls, hardware: Hardware) -> _Machine:
        return cls(
            tuple(
                _Numa(
                    node.id,
                    node.memory_bytes,
                    dict(node.hugepages),
                    node.distances,
                    tuple(_Cpu(*msgspec.structs.astuple(cpu)) for cpu in node.cpus),
                )
                for node in hardware.numa
            ),
            {
                resource.name: tuple(
                    _Device(device.id, device.numa, not device.healthy) for device in resource.devices
                )
                for resource in hardware.resources
            },
            tuple(resource.name for resource in hardware.resources if resource.prefers),
            hardware.links,
            hardware.caches,
        )

    def hardware(self) -> Hardware:
        return Hardware(
            tuple(
                NumaHardware(
                    node.id,
                    tuple(CpuPlace(*msgspec.structs.astuple(cpu)) for cpu in node.cpus),
                    node.memory_bytes,
                    tuple(sorted(node.hugepages.items())),
                    node.distances,
                )
                for node in self.numa
            ),
            tuple(
                PluginResource(
                    name,
                    tuple(PluginDevice(device.id, device.numa, not device.unhealthy) for device in devices),
                    name in self.preferred_allocation,
                )
                for name, devices in self.devices.items()
            ),
            self.links,
            self.caches,
        )


class _Resources(_Wire, frozen=True):
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class _Container(_Resources, frozen=True, kw_only=True):
    name: str
    restart_policy: str | None = None

    @classmethod
    def of(cls, container: Container) -> _Container:
        return cls(
            name=container.name,
            requests=_texts(container.requests),
            limits=_texts(container.limits),
            restart_policy="Always" if container.restartable else None,
        )

    def container(self) -> Container:
        requests, limits = _amounts(self.requests), _amounts(self.limits)
        for name, limit in limits:
            if amount(requests, name) > limit:
                raise ValueError(
                    f"container {printable(self.name, 80)!r} requests more {printable(name, 80)} than its limit"
                )
        return Container(self.name, requests, limits, self.restart_policy == "Always")


class _Pod(_Wire, frozen=True):
    """A pod; what it asks for as a whole, its class and its overhead are in no recording, but in kept misses."""

    uid: str
    name: str
    namespace: str = "default"
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    resources: _Resources = _Resources()
    overhead: dict[str, str] = {}
    qos_class: Qos | None = None

    @classmethod
    def of(cls, pod: Pod) -> _Pod:
        return cls(
            pod.uid,
            pod.name,
            pod.namespace,
            tuple(map(_Container.of, pod.containers)),
            tuple(map(_Container.of, pod.init_containers)),
            _Resources(_texts(pod.pod_requests), _texts(pod.pod_limits)),
            _texts(pod.overhead),
            pod.qos,
        )

    def pod(self) -> Pod:
        return Pod(
            name=self.name,
            namespace=self.namespace,
            uid=self.uid,
            containers=tuple(container.container() for container in self.containers),
            init_containers=tuple(container.container() for container in self.init_containers),
            qos=self.qos_class,
            overhead=_amounts(self.overhead),
            pod_requests=_amounts(self.resources.requests),
            pod_limits=_amounts(self.resources.limits),
        )


class Event(_Wire, frozen=True):
    """Something that happens: `add` brings a pod, `remove` and `start` name one, `restart` none."""

    op: str
    pod: _Pod | None = None
    uid: str = ""


class Scenario(_Wire, frozen=True):
    """One recorded session's input."""

    id: str
    machine: _Machine
    config: ConfigText
    events: tuple[Event, ...] = ()
    kubernetes_version: str = DEFAULT_VERSION

    @classmethod
    def of(cls, name: str, node: Node, pods: Iterable[Pod]) -> Scenario:
        """The node's machine and configuration, and pods that arrive one after the other."""
        return cls(
            name,
            _Machine.of(node.kubelet.hardware),
            ConfigText.of(node.kubelet.config),
            tuple(Event("add", _Pod.of(pod)) for pod in pods),
            node.kubelet.config.version,
        )


def arranged(scenario: Scenario) -> tuple[Node, tuple[Pod, ...]]:
    """The node before anything happens, and the pods that will come, in order; `StartError` if it never starts."""
    node = Node.fresh(scenario.machine.hardware(), configuration_of(scenario))
    return node, tuple(event.pod.pod() for event in scenario.events if event.pod is not None)


def configuration_of(scenario: Scenario) -> KubeletConfig:
    """The kubelet's configuration; recordings do not tell their gates."""
    return scenario.config.configuration(scenario.kubernetes_version, _GATES)


def _amounts(amounts: Mapping[str, str]) -> Resources:
    return tuple((name, quantity.nano) for name, quantity in amounts_of(amounts))


def _texts(resources: Resources) -> dict[str, str]:
    return {name: quantity_text(name, nano) for name, nano in resources}
