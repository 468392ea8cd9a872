"""Pods in recorded cases: what the recorders wrote down of a Pod, read as it was given, without API defaults."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from numaware.machine.node_topology import Amount
from numaware.schedule.peers.nrt import exact
from numaware.workload.pod import Container, Pod, Resources
from numaware.workload.podspec import MAX_CONTAINERS, MAX_RESOURCES
from numaware.workload.requirements import HUGEPAGES

Amounts = dict[str, Amount]


class RecordedResources(msgspec.Struct, frozen=True):
    """Requests and limits."""

    requests: Amounts | None = None
    limits: Amounts | None = None


class RecordedContainer(msgspec.Struct, frozen=True, rename="camel"):
    """One container."""

    name: str = ""
    resources: RecordedResources = RecordedResources()
    restart_policy: str | None = None


class RecordedSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a pod's spec that matters."""

    containers: tuple[RecordedContainer, ...] = ()
    init_containers: tuple[RecordedContainer, ...] | None = None
    overhead: Amounts | None = None
    resources: RecordedResources | None = None


class RecordedMetadata(msgspec.Struct, frozen=True):
    """Where schedulers keep what they know of a pod."""

    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}


class RecordedPod(msgspec.Struct, frozen=True):
    """A pod as far as it was recorded; what has been computed from it is not read."""

    spec: RecordedSpec
    metadata: RecordedMetadata = RecordedMetadata()


def pod(recorded: RecordedPod) -> Pod:
    """The pod as a value; ValueError where an amount is none or the pod is larger than any."""
    spec = recorded.spec
    inits = spec.init_containers or ()
    if len(spec.containers) + len(inits) > MAX_CONTAINERS:
        raise ValueError(f"a pod of more than {MAX_CONTAINERS} containers")
    own = spec.resources or RecordedResources()
    # Without a resource that a pod may have of its own the field counts as absent.
    if not any(_of_the_pod(name) for name in {**(own.requests or {}), **(own.limits or {})}):
        own = RecordedResources()
    return Pod(
        name="",
        containers=tuple(_container(container, init=False) for container in spec.containers),
        init_containers=tuple(_container(container, init=True) for container in inits),
        overhead=amounts(spec.overhead),
        pod_requests=amounts(own.requests),
        pod_limits=amounts(own.limits),
    )


def _container(recorded: RecordedContainer, *, init: bool) -> Container:
    return Container(
        recorded.name,
        amounts(recorded.resources.requests),
        amounts(recorded.resources.limits),
        restartable=init and recorded.restart_policy == "Always",
    )


def amounts(texts: Mapping[str, Amount] | None) -> Resources:
    """Exact amounts, sorted by name; ValueError where there are more than any pod or node has."""
    if texts and len(texts) > MAX_RESOURCES:
        raise ValueError(f"more than {MAX_RESOURCES} resources in one place")
    return exact(texts or {})


def _of_the_pod(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith(HUGEPAGES)
