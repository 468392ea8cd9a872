"""Pods that take a part of a GPU: which device, and what is left of it.

Kubelets hand out whole devices; sharing is agreed between scheduler and plugin. To the kubelet's twin a device in shared
use is taken (nobody can have it whole); what is left of it, in thousandths, is kept beside the twin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from numaware.diagnose.reason import Reason
from numaware.machine.cpuset import iter_bits
from numaware.schedule.room import SHARE_RESOURCE, WHOLE, gpu_resource
from numaware.twin.account import free_devices
from numaware.twin.node import Node
from numaware.workload.pod import Pod, amount, units

# Who holds the devices in shared use, as far as the twin is concerned.
_SHARERS = "shared-gpus"

# No GPU has enough left.
NO_SHARE = Reason("gpu-share")

# Device -> thousandths left, for devices in shared use.
Remainders = Mapping[int, int]


class Share(NamedTuple):
    """A choice of device that holds for every node of a class: the zone it is in, and what is left of it."""

    zone: int
    left: int


def wanted_share(pod: Pod) -> int:
    """Thousandths of one GPU that the pod takes, 0 for none."""
    return sum(units(amount(container.limits, SHARE_RESOURCE)) for container in pod.containers)


def choices(node: Node, shares: Remainders, pod: Pod) -> Iterator[tuple[Share | None, Remainders]]:
    """Every distinct way to give the pod its share, with the remainders afterwards; one way for a pod without."""
    want = wanted_share(pod)
    if not want:
        yield None, shares
        return
    seen: set[Share] = set()
    for device, share in _devices(node, shares, want):
        if share not in seen:
            seen.add(share)
            yield share, {**shares, device: share.left - want}


def device_for(node: Node, shares: Remainders, share: Share) -> int:
    """The lowest device that is what the share says."""
    return next(device for device, offered in _devices(node, shares, 1) if offered == share)


def shared_nodes(node: Node, shares: Remainders, share: Share | None) -> int:
    """The NUMA nodes of the device that a share is of, as a mask."""
    if share is None:
        return 0
    return node.kubelet.devices.inventories[gpu_resource(node) or ""].nodes[device_for(node, shares, share)]


def shares_class(node: Node, shares: Remainders) -> tuple[tuple[int, int], ...]:
    """What is left of devices in shared use, without telling apart devices that are alike (`twin/equivalence.py`)."""
    inventory = node.kubelet.devices.inventories[gpu_resource(node) or ""]
    alike = inventory.groups is not None
    return tuple(
        sorted((inventory.nodes[device] if alike else device, left) for device, left in shares.items())
    )


def settled(
    node: Node, wanted: Mapping[str, int], known: Mapping[str, int]
) -> tuple[dict[str, int], dict[int, int]]:
    """Which pods stay on the devices they are known to share, and what is left of those; `node` has none in shared use."""
    name = gpu_resource(node)
    free = free_devices(node, name) if name else 0
    sharers: dict[str, int] = {}
    left: dict[int, int] = {}
    for uid, share in wanted.items():
        device = known.get(uid)
        if device is not None and free >> device & 1 and left.get(device, WHOLE) >= share:
            sharers[uid] = device
            left[device] = left.get(device, WHOLE) - share
    return sharers, left


def with_shared(node: Node, shares: Remainders) -> Node:
    """The node with exactly these devices out of the kubelet's hands."""
    name = gpu_resource(node)
    device = node.state.device
    held = device.owned.get(_SHARERS, {}).get("", {}).get(name or "", 0)
    mask = sum(1 << index for index in shares)
    if name is None or held == mask:
        return node
    owned = {uid: containers for uid, containers in device.owned.items() if uid != _SHARERS}
    if mask:
        owned[_SHARERS] = {"": {name: mask}}
    taken = {**device.taken, name: device.taken.get(name, 0) & ~held | mask}
    if not taken[name]:
        del taken[name]
    return Node(node.kubelet, replace(node.state, device=replace(device, owned=owned, taken=taken)))


def _devices(node: Node, shares: Remainders, want: int) -> Iterator[tuple[int, Share]]:
    """Devices with at least `want` left, lowest first."""
    name = gpu_resource(node)
    if name is None:
        return
    inventory = node.kubelet.devices.inventories[name]
    free = free_devices(node, name)
    for device in iter_bits(free | sum(1 << index for index in shares)):
        left = shares.get(device, WHOLE)
        if left >= want:
            nodes = inventory.nodes[device]
            yield device, Share((nodes & -nodes).bit_length() - 1 if nodes else 0, left)
