"""What a kubelet says to a pod where that is certain without asking it: only numbers count, and they are known.

The kubelet that is asked (`twin/node.py`) says the same; a property test holds every answer to that.
"""

from __future__ import annotations

from numaware.diagnose.reason import Reason
from numaware.schedule.evaluation_cache import Fit, Way
from numaware.schedule.pod_footprint import PodFootprint
from numaware.schedule.room import NumaRoom, Room
from numaware.schedule.score import Outcome
from numaware.schedule.shares import NO_SHARE, Remainders, choices
from numaware.schedule.standing import Standing
from numaware.twin.kubelet import Kubelet
from numaware.twin.node import Node
from numaware.twin.topology.hints import Hint
from numaware.workload.pod import Pod

# Policies under which a kubelet refuses whom no single NUMA node has enough for.
_INSISTS = ("restricted", "single-numa-node")


def certain_fit(
    standing: Standing, wanted: PodFootprint, node: Node, shares: Remainders, pod: Pod
) -> Fit | None:
    """The answer to a pod for which the node has enough in all; None if the kubelet has to be asked."""
    if not wanted.certain or standing.grouped:
        return None
    zones = standing.room.zones
    mask = 0
    if wanted.owns:
        index = next((index for index, zone in enumerate(zones) if wanted.fits(zone)), None)
        if index is None:
            return _refusal(standing, wanted, node.kubelet)
        mask = 1 << index
        zones = _replaced(zones, index, _without(zones[index], wanted))
    cpus = (standing.milli - wanted.requested_milli) // 1000
    memory = standing.room.memory - wanted.requested_memory
    ways: list[Way] = []
    for share, _ in choices(node, shares, pod):
        left, nodes = zones, mask
        if share is not None:
            there = zones[share.zone]
            rest = [*there.gpus]
            rest.remove(share.left)
            if share.left > wanted.share:
                rest.append(share.left - wanted.share)
            shared = NumaRoom(there.cpus, there.memory, tuple(sorted(rest)))
            left, nodes = _replaced(zones, share.zone, shared), mask | 1 << share.zone
        ways.append((share, nodes, Outcome(standing.site, standing.room, Room(left, cpus, memory))))
    if not ways:
        return Fit((), (), (NO_SHARE,))
    return Fit(_hints(node.kubelet, mask), tuple(ways), ())


def _without(zone: NumaRoom, wanted: PodFootprint) -> NumaRoom:
    gpus = zone.gpus[: len(zone.gpus) - wanted.gpus]
    return NumaRoom(zone.cpus - wanted.cpus, zone.memory - wanted.memory, gpus)


def _replaced(zones: tuple[NumaRoom, ...], index: int, zone: NumaRoom) -> tuple[NumaRoom, ...]:
    return (*zones[:index], zone, *zones[index + 1 :])


def _hints(kubelet: Kubelet, mask: int) -> tuple[Hint, ...]:
    """What the managers agree on for a pod on one NUMA node, or for one without any wishes.

    KUBELET: single-numa-node stores all nodes as "any".
    """
    if kubelet.policy is None:
        return ()
    if not mask:
        return (kubelet.policy.merged(()),)
    everywhere = kubelet.policy.name == "single-numa-node" and mask == kubelet.layout.full
    return (Hint(None if everywhere else mask, preferred=True),)


def _refusal(standing: Standing, wanted: PodFootprint, kubelet: Kubelet) -> Fit | None:
    """No NUMA node has enough: hints do not agree, unless it is memory that is short."""
    policy = kubelet.policy
    if policy is None or policy.name not in _INSISTS or not wanted.together:
        return None
    if any(map(wanted.finds_hints, standing.room.zones)):
        return None
    return Fit((), (), (Reason("numa-alignment", (policy.name,)),))
