"""Joins what kernel, kubelet and API server say of this node into one twin, or says why that cannot be done.

The kernel tells the machine, the kubelet's configuration the rules, its state files who holds which CPUs and memory,
PodResources who holds which devices and who is active, the API server what the pods are. All of them are read at slightly
different moments, so they may contradict each other for a while; such a moment is passed over, never published. Above
all, an answer that is missing is not one that says zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec
from msgspec.structs import replace

from numaware.errors import InputError
from numaware.kube.pods import LivePod
from numaware.machine.cpuset import CpuSet, list_form
from numaware.machine.topology import Machine
from numaware.node.podresources import Allocatable, ContainerHoldings, Devices, PodHoldings
from numaware.twin.config import KubeletConfig
from numaware.twin.device.manager import DeviceState, Owned, taken_of
from numaware.twin.errors import KubeletPanic, StartError
from numaware.twin.files import load_state
from numaware.twin.hardware import PluginDevice, PluginResource
from numaware.twin.inventory import hardware_of, registered_resources
from numaware.twin.kubelet import Kubelet, start
from numaware.twin.node import Node, NodeState
from numaware.twin.state import cpu as cpu_file
from numaware.twin.state import device as device_file
from numaware.twin.state import document
from numaware.twin.state import memory as memory_file
from numaware.twin.state.errors import CorruptCheckpointError
from numaware.workload.pod import Container, Pod

Cause = Literal["configuration", "state", "disagreement"]


class ObservationError(Exception):
    """The parts do not make a whole; of a `disagreement` the next moment may know better."""

    def __init__(self, cause: Cause, message: str) -> None:
        self.cause = cause
        super().__init__(message)


class Facts(msgspec.Struct, frozen=True):
    """All that was read for one observation. `live` are the pods that the API server has for this node, by uid."""

    machine: Machine
    config: KubeletConfig
    files: Mapping[str, bytes]
    held: tuple[PodHoldings, ...]
    allocatable: Allocatable | None
    live: Mapping[str, LivePod]


def observe(facts: Facts) -> Node:
    """The node as it is; `ObservationError` for why that cannot be said."""
    remembered = _remembered(facts)
    kubelet = _kubelet(facts, remembered)
    state = _state(kubelet, facts)
    _check_allocatable(kubelet, facts.allocatable)
    named = _named(facts, state)
    _check_cpus(named, state)
    # Pods that the kubelet does not list may have just not been told to it yet (a restart); pods that the API server does
    # not have any more may still be ending. Only who is in neither has let go.
    live = {uid: pod for uid, pod in facts.live.items() if not pod.finished}
    known = {*named, *live}
    gone = [uid for uid in (*state.cpu.owned, *state.memory.blocks) if uid not in known]
    node = Node(kubelet, state).release(*gone)
    pods = {uid: _pod(uid, holdings, facts.live.get(uid)) for uid, holdings in named.items()}
    holding = {*node.state.cpu.owned, *node.state.memory.blocks}
    pods |= {uid: pod.pod for uid, pod in live.items() if uid in holding and uid not in pods}
    return Node(
        kubelet,
        replace(
            node.state,
            device=_devices(kubelet, {**remembered, **named}),
            pods=dict(sorted(pods.items(), key=lambda item: (item[1].namespace, item[1].name, item[0]))),
        ),
    )


def _remembered(facts: Facts) -> dict[str, PodHoldings]:
    """By uid, what the kubelet's file says of the devices of pods that it does not list, but that have not ended.

    A kubelet that was started a moment ago lists nobody, and they go on all the same.
    """
    listed = {(pod.namespace, pod.name) for pod in facts.held}
    waiting = {
        uid: pod
        for uid, pod in facts.live.items()
        if not pod.finished and (pod.namespace, pod.name) not in listed
    }
    data = facts.files.get(device_file.FILE)
    if not waiting or data is None:
        return {}
    try:
        entries = device_file.decode(data).entries
    except (CorruptCheckpointError, InputError):
        # KUBELET: the Device Manager too goes on without a file that it cannot read.
        return {}
    containers: dict[str, list[ContainerHoldings]] = {}
    for entry in entries:
        if entry.pod_uid in waiting:
            nodes = sorted(entry.nodes_of().items())
            held = tuple(Devices(entry.resource, (device,), where) for device, where in nodes)
            containers.setdefault(entry.pod_uid, []).append(ContainerHoldings(entry.container, devices=held))
    return {
        uid: PodHoldings(waiting[uid].namespace, waiting[uid].name, tuple(parts))
        for uid, parts in containers.items()
    }


def _kubelet(facts: Facts, remembered: Mapping[str, PodHoldings]) -> Kubelet:
    try:
        resources = _resources(facts, (*remembered.values(), *facts.held))
        return start(hardware_of(facts.machine, resources), facts.config)
    except StartError as error:
        raise ObservationError(
            "configuration", f"no kubelet would start with this configuration: {error.message}"
        ) from None
    except (InputError, ValueError) as error:
        raise ObservationError("configuration", str(error)) from None


def _resources(facts: Facts, pods: Iterable[PodHoldings]) -> list[PluginResource]:
    """What the plugins offer, and what somebody holds although no plugin offers it any more (it counts as unhealthy)."""
    if facts.allocatable is None:
        # A kubelet too old to be asked.
        data = facts.files.get(device_file.FILE)
        if data is None:
            return []
        resources, _ = registered_resources(
            facts.machine, device_file.parse(document.read(data, device_file.FILE).fields)
        )
        return resources
    known = {node.id for node in facts.machine.numa}
    devices: dict[str, dict[str, PluginDevice]] = {}
    held = (entry for pod in pods for container in pod.containers for entry in container.devices)
    for entry, healthy in (
        *((entry, False) for entry in held),
        *((entry, True) for entry in facts.allocatable.devices),
    ):
        for device in entry.ids:
            nodes = tuple(node for node in entry.nodes if node in known)
            devices.setdefault(entry.resource, {})[device] = PluginDevice(device, nodes, healthy)
    return [
        PluginResource(resource, tuple(device for _, device in sorted(members.items())))
        for resource, members in sorted(devices.items())
    ]


def _state(kubelet: Kubelet, facts: Facts) -> NodeState:
    needed = [cpu_file.FILE, *([memory_file.FILE] if kubelet.memory else [])]
    for name in needed:
        if name not in facts.files:
            raise ObservationError("state", f"{name} is not there: the kubelet has not started yet")
    files = {name: facts.files[name] for name in needed}
    try:
        state = load_state(kubelet, files)
        _check_filled(kubelet, files)
    except StartError as error:
        raise ObservationError("state", error.message) from None
    except KubeletPanic as crash:
        raise ObservationError("state", f"no kubelet would survive its state files: {crash}") from None
    except (InputError, ValueError) as error:
        raise ObservationError("state", str(error)) from None
    return state


def _check_filled(kubelet: Kubelet, files: Mapping[str, bytes]) -> None:
    """A starting kubelet takes a file with nothing in it for a fresh node; one that runs has written what it has."""
    if kubelet.cpus:
        cpu = cpu_file.decode(files[cpu_file.FILE])
        if not cpu.default_cpus and not cpu.entries:
            raise ObservationError("state", f"{cpu_file.FILE} tells of no CPU")
    if kubelet.memory and not memory_file.decode(files[memory_file.FILE]).machine_state:
        raise ObservationError("state", f"{memory_file.FILE} tells of no NUMA node")


def _check_allocatable(kubelet: Kubelet, answered: Allocatable | None) -> None:
    """The kubelet runs with another configuration than the one that was read, if it keeps other CPUs for the system."""
    if answered is None or kubelet.cpus is None:
        return
    ours = kubelet.layout.all_cpus & ~kubelet.cpus.reserved
    if answered.cpus.mask != ours:
        raise ObservationError(
            "configuration",
            f"the kubelet hands out CPUs {answered.cpus}, by its configuration it would be {list_form(ours)}: "
            "it runs with another one, or with flags that win over it",
        )


def _named(facts: Facts, state: NodeState) -> dict[str, PodHoldings]:
    """What the kubelet lists, by uid. It lists pods by name, and knows static ones by another uid than the API server.

    Those are found by what they hold, as no two pods have a CPU in common.
    """
    by_name = {(pod.namespace, pod.name): uid for uid, pod in facts.live.items()}
    by_cpus = {
        cpus: uid
        for uid, containers in state.cpu.owned.items()
        for cpus in containers.values()
        if uid not in facts.live
    }
    named: dict[str, PodHoldings] = {}
    for pod in facts.held:
        uid = by_name.get((pod.namespace, pod.name))
        if uid is None or uid not in state.cpu.owned:
            owners = {by_cpus[one.cpus.mask] for one in pod.containers if one.cpus.mask in by_cpus}
            uid = owners.pop() if len(owners) == 1 else uid
        if uid is None:
            if any(one.cpus or one.memory or one.devices for one in pod.containers):
                raise ObservationError(
                    "disagreement",
                    f"the kubelet runs {pod.namespace}/{pod.name}, the API server has no such pod",
                )
            continue
        named[uid] = pod
    return named


def _check_cpus(named: Mapping[str, PodHoldings], state: NodeState) -> None:
    for uid, pod in named.items():
        owned = state.cpu.owned.get(uid, {})
        for container in pod.containers:
            cpus = CpuSet.from_mask(owned.get(container.name, 0))
            if container.cpus != cpus:
                raise ObservationError(
                    "disagreement",
                    f"{pod.namespace}/{pod.name}: the kubelet answers CPUs {str(container.cpus) or 'none'} for "
                    f"{container.name}, its state file has {str(cpus) or 'none'}",
                )


def _pod(uid: str, holdings: PodHoldings, live: LivePod | None) -> Pod:
    """The pod; of one that only the kubelet knows, its name and containers."""
    if live is not None:
        return live.pod
    containers = tuple(Container(one.name) for one in holdings.containers)
    return Pod(holdings.name, holdings.namespace, uid, containers)


def _devices(kubelet: Kubelet, named: Mapping[str, PodHoldings]) -> DeviceState:
    places = {
        resource: {device: place for place, device in enumerate(inventory.ids)}
        for resource, inventory in kubelet.devices.inventories.items()
    }
    owned: Owned = {}
    for uid, pod in named.items():
        for container in pod.containers:
            for entry in container.devices:
                known = places.get(entry.resource, {})
                mask = sum(1 << known[device] for device in entry.ids if device in known)
                if mask:
                    masks = owned.setdefault(uid, {}).setdefault(container.name, {})
                    masks[entry.resource] = masks.get(entry.resource, 0) | mask
    return DeviceState(owned, owned, taken_of(owned))
