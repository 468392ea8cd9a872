"""A live cluster as the doctor looks at it: nodes, what is published of them, components, kubelet configurations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, TypeVar

import msgspec

from numaware import __version__
from numaware.diagnose.doctor import volcano
from numaware.diagnose.doctor.cluster import ClusterNode, ClusterView, NodeTopology, pool_of
from numaware.diagnose.doctor.component import Component
from numaware.diagnose.doctor.volcano import NumaAware
from numaware.diagnose.finding import Finding
from numaware.errors import InputError
from numaware.kube import config_maps
from numaware.kube import nodes as node_codec
from numaware.kube import pods as pod_codec
from numaware.kube.client import Client
from numaware.kube.config import Connection, connect
from numaware.kube.decoding import Condition, DecodeError, Metadata, Reader, Wire, condition
from numaware.kube.errors import ApiError
from numaware.kube.nodes import LiveNode
from numaware.kube.pods import LivePod
from numaware.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES, PODS, Resource
from numaware.kube.topology import nrt
from numaware.kube.topology.fingerprint import fingerprint
from numaware.kube.topology.report import Report
from numaware.schedule.pod_kinds import owns_something
from numaware.serve.console.openfuyao import volcano_conf

# Kubelets that are asked for their configuration; a cluster of many has few kinds.
_MOST_ASKED = 64
_AT_ONCE = 16
_ASK_SECONDS = 3.0
_NAME = "app.kubernetes.io/name"
T = TypeVar("T")

_OURS = ("numaware-agent", "numaware-scheduler", "numaware-extender")


def look(kubeconfig: str | None, context: str | None) -> ClusterView:
    """The cluster as it is now; `InputError` if it does not answer."""

    async def connected() -> ClusterView:
        return await view_of(await connect(kubeconfig, context))

    return asyncio.run(connected())


async def view_of(connection: Connection) -> ClusterView:
    """The same over a connection that is there."""
    async with Client(connection) as client:
        version = await client.server_version()
        try:
            nodes = _readable(node_codec.decode, await _all(client, NODES))
            raw_pods = await _all(client, PODS)
        except ApiError as error:
            raise InputError("the cluster", f"cannot be read: {error}") from None
        reports = await _reports(client)
        configs = await _configs(client, nodes)
        numa_aware = await _numa_aware(client)
    pods = _readable(pod_codec.decode, raw_pods)
    return ClusterView(
        name=connection.base,
        version=version,
        nodes=tuple(
            ClusterNode(node.name, pool_of(node.labels), node.ready, node.kubelet_version, node.runtime)
            for node in nodes
        ),
        topologies=None if reports is None else tuple(topologies(reports, pods)),
        components=tuple(components(raw_pods)),
        configs=configs,
        own_version=__version__,
        numa_aware=numa_aware,
    )


def look_at_volcano(kubeconfig: str | None, context: str | None) -> list[Finding]:
    """What keeps Volcano from placing pods by NUMA nodes, for `why-pending`; nothing where its pods may not be listed."""

    async def findings() -> list[Finding]:
        async with Client(await connect(kubeconfig, context)) as client:
            try:
                parts = components(await _all(client, PODS, volcano.NAMESPACE))
            except ApiError:
                return []
            return list(volcano.findings(parts, await _numa_aware(client)))

    return asyncio.run(findings())


async def _numa_aware(client: Client) -> NumaAware:
    """Whether Volcano's configuration has the plugin, as the console's switch reads it."""
    try:
        found = await config_maps.read(client, volcano_conf.MAP, volcano_conf.NAMESPACE)
        return "on" if volcano_conf.status_of(found.data.get(volcano_conf.KEY, "")) == "open" else "off"
    except ApiError as error:
        return "no-volcano" if error.not_found else "unknown"
    except InputError:
        return "unknown"


async def _all(client: Client, resource: Resource, namespace: str = "") -> list[msgspec.Raw]:
    return [raw async for page in client.list(resource, namespace) for raw in page.items]


def _readable(decode: Callable[[Any], T], objects: Iterable[bytes | msgspec.Raw]) -> list[T]:
    """The objects without those that cannot be read: a damaged one must not keep the doctor from the others."""
    values = []
    for raw in objects:
        with suppress(DecodeError):
            values.append(decode(raw))
    return values


async def _reports(client: Client) -> list[Report] | None:
    """What is published of nodes; None where the cluster does not know such objects."""
    try:
        return _readable(nrt.decode, await _all(client, NODE_RESOURCE_TOPOLOGIES))
    except ApiError as error:
        if error.not_found:
            return None
        raise InputError("NodeResourceTopology", f"cannot be read: {error}") from None


async def _configs(client: Client, nodes: Iterable[LiveNode]) -> tuple[tuple[str, bytes], ...] | None:
    """What kubelets say of their own configuration; None where nobody may ask them, or none answers."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def ask(name: str) -> tuple[str, bytes] | None:
        async with turns:
            try:
                return name, await client.get(NODES, name, subresource="proxy/configz", within=_ASK_SECONDS)
            except ApiError:
                return None

    asked = islice((node.name for node in nodes if node.ready), _MOST_ASKED)
    answers = await asyncio.gather(*map(ask, asked))
    return tuple(answer for answer in answers if answer is not None) or None


def topologies(reports: Iterable[Report], pods: Iterable[LivePod]) -> Iterable[NodeTopology]:
    """The reports, each held against the pods that are on its node now."""
    on_node: dict[str, list[LivePod]] = {}
    for pod in pods:
        if pod.holds:
            on_node.setdefault(pod.node, []).append(pod)
    for report in reports:
        yield NodeTopology(
            report.node,
            report.publisher,
            report.policy or "",
            report.scope or "",
            _is_current(report, on_node.get(report.node, [])),
            report.problem,
        )


def _is_current(report: Report, pods: list[LivePod]) -> bool | None:
    if not report.fingerprint:
        return None
    counted = pods if report.method == "all" else [pod for pod in pods if owns_something(pod.pod)]
    return report.fingerprint == fingerprint((pod.namespace, pod.name) for pod in counted)


# Components


class _Container(Wire):
    image: str = ""


class _Spec(Wire):
    containers: tuple[_Container, ...] = ()
    node_name: str = ""


class _Status(Wire):
    phase: str = ""
    conditions: list[Condition] | None = None


class _ComponentPod(Wire):
    metadata: Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_POD = Reader("pod", _ComponentPod)


def components(raw_pods: Iterable[bytes | msgspec.Raw]) -> list[Component]:
    """Pods sorted into components: our own by their label, Volcano's and openFuyao's by their names, device plugins by what
    their images are called.
    """
    pods_of: dict[str, list[_ComponentPod]] = {}
    for pod in _readable(_POD.read, raw_pods):
        name = _component(pod)
        if name and pod.status.phase not in ("Succeeded", "Failed"):
            pods_of.setdefault(name, []).append(pod)
    return [
        Component(
            name,
            len(pods),
            sum(condition(pod.status.conditions, "Ready").status == "True" for pod in pods),
            tuple(sorted({_tag(pod) for pod in pods})),
            frozenset(pod.spec.node_name for pod in pods if pod.spec.node_name),
        )
        for name, pods in sorted(pods_of.items())
    ]


def _component(pod: _ComponentPod) -> str:
    labels: Mapping[str, str] = pod.metadata.labels or {}
    if labels.get(_NAME) in _OURS:
        return labels[_NAME]
    part = volcano.component_of(pod.metadata.namespace, pod.metadata.name)
    if part:
        return part
    images = [container.image for container in pod.spec.containers]
    plugin = next((image for image in images if "device-plugin" in image), "")
    return plugin.rpartition("/")[2].partition("@")[0].partition(":")[0]


def _tag(pod: _ComponentPod) -> str:
    """The version in the image of the first container; `?` where it names none."""
    image = pod.spec.containers[0].image if pod.spec.containers else ""
    return image.rpartition("/")[2].partition("@")[0].partition(":")[2] or "?"
