"""The OverReserve cache of scheduler-plugins: pods that were placed after the node last reported.

Mirrors `pkg/noderesourcetopology/cache/store.go` (August 2026). The plugin does not guess which NUMA node the kubelet
will use, so a placed pod is taken from every one of them until the node reports again: safe, and wasteful.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from numaware.schedule.peers.requests import effective_request
from numaware.schedule.peers.zones import Topology
from numaware.workload.pod import Pod, Resources


def assume(topology: Topology, pods: Iterable[Pod]) -> Topology:
    """The topology with each pod's effective request taken from every zone that lists the resource, down to zero."""
    zones = topology.zones
    for pod in pods:
        request = dict(effective_request(pod))
        zones = tuple(
            msgspec.structs.replace(zone, available=_less(zone.available, request)) for zone in zones
        )
    return msgspec.structs.replace(topology, zones=zones)


def _less(available: Resources, request: dict[str, int]) -> Resources:
    return tuple((name, max(0, nano - request.get(name, 0))) for name, nano in available)
