"""Nodes by which extended resources of a pod DRA serves there: what is left of the pod is asked about like any other.

Mirrors NodeResourcesFit with DRAExtendedResource (v1.35): what a node offers under the name of the resource is counted there;
only where it offers none, and a class serves it, is it a matter of claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from numaware.diagnose.reason import Reason
from numaware.schedule.cluster import Cluster
from numaware.schedule.filters import dra_reason
from numaware.workload.dra.known import Ask
from numaware.workload.pod import Pod, without_resources


class Part(NamedTuple):
    """Nodes by their places, what they are asked about, and what the pod waits for where they take that."""

    pod: Pod
    places: list[int]
    reason: Reason | None


def parts_by_dra(cluster: Cluster, pod: Pod, names: Sequence[str]) -> Iterator[Part]:
    """All of these nodes, those together where the same resources are served."""
    served = cluster.dra.served(pod)
    groups: dict[tuple[str, ...], list[int]] = {}
    for place, name in enumerate(names):
        groups.setdefault(_served_on(cluster, served, name), []).append(place)
    for here, places in groups.items():
        yield Part(without_resources(pod, here) if here else pod, places, dra_reason(here) if here else None)


def left_of(cluster: Cluster, pod: Pod, name: str) -> Pod:
    """What of the pod the node called `name` is asked about."""
    here = served_on(cluster, pod, name)
    return without_resources(pod, here) if here else pod


def served_on(cluster: Cluster, pod: Pod, name: str) -> tuple[str, ...]:
    """The extended resources of the pod that DRA serves on the node called `name`, by name."""
    return _served_on(cluster, cluster.dra.served(pod), name)


def asks_on(cluster: Cluster, pod: Pod, names: Iterable[str]) -> tuple[Ask, ...]:
    """All that the pod has by DRA on one of these nodes or another."""
    served = cluster.dra.served(pod)
    here = {one for name in names for one in _served_on(cluster, served, name)} if served else ()
    return cluster.dra.asks_of(pod, sorted(here))


def _served_on(cluster: Cluster, served: Sequence[str], name: str) -> tuple[str, ...]:
    member = cluster.by_name.get(name)
    return tuple(one for one in served if member is not None and not member.allocatable.get(one))
