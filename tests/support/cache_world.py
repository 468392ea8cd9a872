"""A cluster told to `ClusterCache` in small pieces: nodes, pods and reports without an API server, and a clock set by hand."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from numaware.kube.decoding import Condition
from numaware.kube.nodes import LiveNode
from numaware.kube.pods import LivePod
from numaware.kube.topology import nrt, publish
from numaware.kube.topology.fingerprint import Method
from numaware.kube.topology.report import Report
from numaware.machine.cpuset import list_form
from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Engine
from numaware.serve.cluster_cache import ClusterCache
from numaware.twin.node import Node
from numaware.workload.pod import Pod


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def cache_of(*nodes: LiveNode, clock: Clock | None = None) -> ClusterCache:
    cache = ClusterCache(Engine(Cluster(())), clock or Clock(), settle=90.0)
    for node in nodes:
        cache.put_node(node)
    return cache


def live_node(node: Node, name: str = "n1", uid: str = "u1") -> LiveNode:
    """The node as the API server has it: totals of its machine."""
    hardware = node.kubelet.hardware
    amounts = {
        "cpu": 1000 * node.kubelet.layout.cpu_count,
        "memory": sum(numa.memory_bytes for numa in hardware.numa),
        "pods": 110,
        **{resource.name: len(resource.devices) for resource in hardware.resources},
    }
    return LiveNode(
        name=name,
        uid=uid,
        labels=(),
        taints=(),
        unschedulable=False,
        allocatable=tuple(sorted(amounts.items())),
        capacity=tuple(sorted(amounts.items())),
        kubelet_version=node.kubelet.config.version,
        ready=True,
    )


def live_pod(pod: Pod, node: str = "n1", second: int = 0, **changes: object) -> LivePod:
    """A pod as the API server has it, taken by its kubelet, bound in some second of a minute; with `node=""` it waits."""
    at = datetime(2026, 11, 15, 12, 0, second, tzinfo=UTC)
    found = LivePod(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        version="1",
        node=node,
        scheduler="numaware",
        phase="Pending",
        reason="",
        message="",
        created=at,
        deletion=None,
        scheduled=Condition("PodScheduled", "True", last_transition_time=at) if node else None,
        owners=(),
        predicted="",
        observed="",
        kai_predicted="",
        kai_observed="",
        pod=pod,
        looked_at=bool(node),
    )
    return msgspec.structs.replace(found, **changes)


def ended(live: LivePod, phase: str = "Succeeded", reason: str = "") -> LivePod:
    return msgspec.structs.replace(live, phase=phase, reason=reason)


def complete(node: Node, name: str = "n1", generation: int = 1) -> Report:
    """What our agent reports of the node."""
    return nrt.decode(msgspec.json.encode(publish.encode(name, node, generation)))


def counted(
    node: Node, name: str = "n1", *, method: Method = "with-exclusive-resources", fingerprint: bool = True
) -> Report:
    """What another publisher reports of the node: counts, and perhaps whom it counted."""
    document = publish.encode(name, node, 1, method=method)
    document["attributes"] = [
        item
        for item in document["attributes"]
        if "/" not in item["name"] and (fingerprint or "Fingerprint" not in item["name"])
    ]
    return nrt.decode(msgspec.json.encode(document))


def twin(cache: ClusterCache, name: str = "n1") -> Node:
    """The node as the engine has it."""
    return cache.engine.cluster.by_name[name].node


def free_cpus(cache: ClusterCache, name: str = "n1") -> str:
    node = twin(cache, name)
    assert node.kubelet.cpus is not None
    return list_form(node.effective_shared() & ~node.kubelet.cpus.reserved)
