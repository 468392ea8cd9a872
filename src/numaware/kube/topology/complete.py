"""All of a node in attributes of its NodeResourceTopology: what a scheduler needs to have the kubelet's twin itself.

Three attributes change at different times: the machine hardly ever, the kubelet's configuration at its restart, the
pods all the time. Each is JSON that a person can read.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from numaware.kube.topology import machine, state
from numaware.kube.topology.report import Complete
from numaware.machine.words import printable
from numaware.twin.errors import StartError
from numaware.twin.node import Node

FORMAT = "numaware.io/format"
GENERATION = "numaware.io/generation"
MACHINE = "numaware.io/machine"
KUBELET_SETTINGS = "numaware.io/kubelet"
STATE = "numaware.io/state"
_VERSION = "1"


def encode(node: Node, generation: int) -> dict[str, str]:
    """The attributes of a node; equal nodes give equal bytes."""
    kubelet = node.kubelet
    return {
        FORMAT: _VERSION,
        GENERATION: str(generation),
        KUBELET_SETTINGS: machine.encode_config(kubelet.config),
        MACHINE: machine.encode_hardware(kubelet.hardware),
        STATE: state.encode(node),
    }


def decode(attributes: Mapping[str, str]) -> Complete | None:
    """The node that the attributes describe, None if they describe none; ValueError for what makes no sense."""
    version = attributes.get(FORMAT)
    if version is None:
        return None
    if version != _VERSION:
        raise ValueError(f"{FORMAT} is {printable(version, 40)!r}; this release reads format {_VERSION}")
    for name in (GENERATION, MACHINE, KUBELET_SETTINGS, STATE):
        if name not in attributes:
            raise ValueError(f"attribute {name} is missing")
    generation = attributes[GENERATION]
    if not (generation.isascii() and generation.isdigit()) or len(generation) > 19:
        raise ValueError(f"{GENERATION} is no number: {printable(generation, 40)!r}")
    try:
        kubelet, devices = machine.decode(attributes[MACHINE], attributes[KUBELET_SETTINGS])
        held = state.decode(attributes[STATE], kubelet, devices)
    except StartError as error:
        raise ValueError(f"the kubelet would not start: {error.message}") from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return Complete(Node(kubelet, held), int(generation))
