"""What a pod has by DRA on a node: the kubelet's managers hear nothing of it, so nothing aligns it with CPUs and memory.

Where devices are is what their drivers say, which of them a claim has is what was allocated; both are held against the NUMA
nodes that the twin gives the pod. What is not allocated yet stays open: that is kube-scheduler's to decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from numaware.diagnose.finding import Message
from numaware.machine.words import printable
from numaware.twin.account import numa_nodes
from numaware.twin.node import Node
from numaware.workload.dra.known import Ask, DraObjects, Offered
from numaware.workload.dra.objects import Device
from numaware.workload.pod import Pod

# allocated here, on another node, not yet; or nobody has shown the claim.
State = Literal["allocated", "elsewhere", "open", "unseen"]
NO_DRA = DraObjects()
_MOST_SHOWN = 8


class DraPart(msgspec.Struct, frozen=True):
    """One thing that the pod has by DRA, as the node sees it.

    `devices` are those allocated, or, as long as none are, those that the drivers of its classes offer here. `aligned` is whether
    they are on the NUMA nodes of what the kubelet gives the pod; None where that is open, or nobody tells.
    """

    name: str
    resources: tuple[str, ...]
    state: State
    devices: tuple[Offered, ...]
    aligned: bool | None
    text: Message


def served_here(node: Node, pod: Pod, dra: DraObjects) -> tuple[str, ...]:
    """The extended resources of the pod that DRA serves on a node of which only its machine is known: a device plugin that offers
    one comes first.
    """
    return tuple(name for name in dra.served(pod) if name not in node.kubelet.devices.inventories)


def dra_parts(
    name: str, node: Node, after: Node, pod: Pod, dra: DraObjects, served: Iterable[str]
) -> Iterator[DraPart]:
    """All that the pod has by DRA on the node called `name`, these resources among it; `after` is the node with the pod on it, or
    without where it is refused.
    """
    asks = dra.asks_of(pod, served)
    if not asks:
        return
    mask = numa_nodes(after, pod.uid) if pod.uid in after.state.pods else 0
    own = after.kubelet.layout.node_ids(mask)
    offered = {one.key: one for one in dra.devices_on(name)}
    for ask in asks:
        yield _part(name, node, ask, own, offered, dra)


def _part(
    name: str,
    node: Node,
    ask: Ask,
    own: tuple[int, ...],
    offered: dict[Any, Offered],
    dra: DraObjects,
) -> DraPart:
    what = _what(ask)
    if ask.allotted is None:
        drivers = dra.drivers_of(ask.classes)
        free = tuple(one for one in offered.values() if one.driver in drivers and not one.claims)
        unseen = ask.spec is None and not ask.resources
        facts: dict[str, Any] = {"what": what}
        if free:
            facts["offers"] = _where(free)
        if own:
            facts["nodes"] = list(own)
        if dra.is_of_cpus(ask) and node.kubelet.cpus:
            return DraPart(ask.name, ask.resources, "open", free, None, Message("dra-cpus", facts))
        key = "dra-hidden" if dra.hidden else "dra-unseen" if unseen else "dra-open"
        return DraPart(
            ask.name, ask.resources, "unseen" if unseen else "open", free, None, Message(key, facts)
        )
    has = [offered.get(one.key) for one in ask.allotted]
    here = tuple(one for one in has if one is not None)
    gone = [one for one in ask.allotted if one.key not in offered]
    places = {place for one in gone if (place := dra.node_of(one.key))}
    if places - {name}:
        facts = {"what": what, "nodes": sorted(printable(place, 80) for place in places)}
        return DraPart(ask.name, ask.resources, "elsewhere", (), None, Message("dra-elsewhere", facts))
    here += tuple(Offered(one.driver, one.pool, Device(one.device)) for one in gone)
    aligned = _aligned(here, own)
    facts = {"what": what, "devices": _where(here), "nodes": list(own)}
    key = "dra-aligned" if aligned else "dra-across" if aligned is False else _silent(here)
    if dra.is_of_cpus(ask) and node.kubelet.cpus:
        key = "dra-cpus"
    return DraPart(ask.name, ask.resources, "allocated", here, aligned, Message(key, facts))


def _silent(devices: tuple[Offered, ...]) -> str:
    """Why nobody can tell whether the devices are where the pod is: their driver does not say, or the pod is nowhere."""
    return "dra-nowhere" if any(one.device.home is None for one in devices) else "dra-alone"


def _aligned(devices: tuple[Offered, ...], own: tuple[int, ...]) -> bool | None:
    """Whether all is on the NUMA nodes of the rest; one device that is elsewhere is enough to say no."""
    homes = {one.device.home for one in devices}
    known = homes - {None}
    if not own or not known:
        return None
    if known - {*own}:
        return False
    return None if None in homes else True


def _what(ask: Ask) -> str:
    return printable(", ".join(ask.resources) or ask.name, 160)


def _where(devices: tuple[Offered, ...]) -> list[dict[str, Any]]:
    """How many devices of which driver on which NUMA node; without a number where the driver does not tell."""
    counts = Counter((one.driver, -1 if one.device.home is None else one.device.home) for one in devices)
    return [
        {"driver": printable(driver, 80), "count": count, **({"numa": numa} if numa >= 0 else {})}
        for (driver, numa), count in sorted(counts.items())[:_MOST_SHOWN]
    ]


def to_builtins(part: DraPart, text: str) -> dict[str, Any]:
    """The documented JSON shape."""
    return {
        "claim": part.name,
        "resources": list(part.resources),
        "state": part.state,
        "devices": [
            {
                "driver": one.driver,
                "pool": one.pool,
                "device": one.device.name,
                "numaNode": one.device.home,
                "pcieRoots": list(one.device.pcie_roots),
            }
            for one in part.devices
        ],
        "aligned": part.aligned,
        "text": text,
    }
