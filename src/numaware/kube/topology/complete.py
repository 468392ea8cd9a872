"""All of a node in attributes of its NodeResourceTopology: what a scheduler needs to have the kubelet's twin itself.

Three attributes change at different times: the machine hardly ever, the kubelet's configuration at its restart, the
state all the time. Each is a part of `twin/node_codec.py` in JSON. What people read of a node is in the zones.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from numaware.kube.topology.report import Complete
from numaware.machine.node_topology import MOST_NUMA
from numaware.machine.words import printable
from numaware.twin.errors import StartError
from numaware.twin.hardware import DeviceLink, Hardware, PluginDevice
from numaware.twin.kubelet import Kubelet, start
from numaware.twin.node import Node
from numaware.twin.node_codec import ConfigText, EncodedState, decode_hardware, encode_hardware
from numaware.workload.pod import Pod

FORMAT = "numaware.io/format"
GENERATION = "numaware.io/generation"
MACHINE = "numaware.io/machine"
KUBELET_SETTINGS = "numaware.io/kubelet"
STATE = "numaware.io/state"
_VERSION = "2"
# Kubelets that are kept ready; a large cluster has some thousand nodes, mostly of a few kinds.
_MOST_KUBELETS = 8192


class _Pod(msgspec.Struct, array_like=True):
    uid: str
    namespace: str
    name: str


class _State(EncodedState, frozen=True, kw_only=True):
    """What the managers hold, and the pods that the kubelet has taken; what those ask for, the API server tells."""

    pods: tuple[_Pod, ...] = ()


_STATE = msgspec.json.Decoder(_State)
_CONFIG = msgspec.json.Decoder(ConfigText)
# Equal nodes give equal bytes, so that nothing is written while nothing changes.
_ENCODER = msgspec.json.Encoder(order="deterministic")


def encode(node: Node, generation: int) -> dict[str, str]:
    """The attributes of a node; equal nodes give equal bytes."""
    kubelet, state = node.kubelet, node.state
    pods = sorted(state.pods.values(), key=lambda pod: (pod.namespace, pod.name, pod.uid))
    held = _State(
        **msgspec.structs.asdict(EncodedState.of(state)),
        pods=tuple(_Pod(pod.uid, pod.namespace, pod.name) for pod in pods),
    )
    return {
        FORMAT: _VERSION,
        GENERATION: str(generation),
        KUBELET_SETTINGS: _ENCODER.encode(ConfigText.of(kubelet.config)).decode(),
        MACHINE: encode_hardware(kubelet.hardware),
        STATE: _ENCODER.encode(held).decode(),
    }


def decode(attributes: Mapping[str, str]) -> Complete | None:
    """The node that the attributes describe, None if they describe none; ValueError for what makes no sense."""
    version = attributes.get(FORMAT)
    if version is None:
        return None
    if version != _VERSION:
        raise ValueError(
            f"{FORMAT} is {printable(version, 40)!r}; this release reads format {_VERSION}: run the agent of this release"
        )
    for name in (GENERATION, MACHINE, KUBELET_SETTINGS, STATE):
        if name not in attributes:
            raise ValueError(f"attribute {name} is missing")
    generation = attributes[GENERATION]
    if not (generation.isascii() and generation.isdigit()) or len(generation) > 19:
        raise ValueError(f"{GENERATION} is no number: {printable(generation, 40)!r}")
    try:
        kubelet = _kubelet(attributes[MACHINE], attributes[KUBELET_SETTINGS])
        held = _STATE.decode(attributes[STATE])
        held.check(kubelet)
    except StartError as error:
        raise ValueError(f"the kubelet would not start: {error.message}") from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None
    pods = {pod.uid: Pod(pod.name or pod.uid, pod.namespace, pod.uid) for pod in held.pods}
    if len(pods) < len(held.pods):
        raise ValueError("a pod is listed twice")
    return Complete(Node(kubelet, held.state(pods)), int(generation))


@lru_cache(maxsize=_MOST_KUBELETS)
def _kubelet(machine: str, config: str) -> Kubelet:
    hardware = decode_hardware(machine)
    if len(hardware.numa) > MOST_NUMA:
        raise ValueError(f"has {len(hardware.numa)} NUMA nodes; at most {MOST_NUMA} can be placed by")
    return start(_numbered(hardware), _CONFIG.decode(config).configuration())


def _numbered(hardware: Hardware) -> Hardware:
    """The machine with its devices numbered in the order of their names, which is that of the bits in a state.

    Devices have the names their vendor gave them, no two alike in a cluster. Nothing but their order matters to a
    kubelet: with numbers, machines of one kind are equal, and share every answer.
    """
    numbers: dict[tuple[str, str], str] = {}
    resources = []
    for resource in hardware.resources:
        devices = []
        for index, device in enumerate(sorted(resource.devices, key=lambda device: device.id)):
            number = f"{index:06}"
            if numbers.setdefault((resource.name, device.id), number) != number:
                raise ValueError(f"a device of {printable(resource.name, 80)} is listed twice")
            devices.append(PluginDevice(number, device.numa, device.healthy))
        resources.append(msgspec.structs.replace(resource, devices=tuple(devices)))
    links = []
    for link in hardware.links:
        if link.a not in numbers or link.b not in numbers:
            raise ValueError("a link to a device that is not listed")
        links.append(DeviceLink((link.a[0], numbers[link.a]), (link.b[0], numbers[link.b]), link.kind))
    return msgspec.structs.replace(hardware, resources=tuple(resources), links=tuple(links))
