"""Pods and nodes as an API server would show them, made from the pods and twins that other tests are made of."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from numaware.kube.nodes import LiveNode
from numaware.kube.pods import LivePod
from numaware.kube.topology.report import Complete, Report
from numaware.twin.node import Node
from numaware.workload.pod import Pod
from support.small_clusters import facts_of

_BARE = LivePod(
    uid="",
    namespace="default",
    name="",
    version="1",
    node="",
    scheduler="numaware",
    phase="Pending",
    reason="",
    message="",
    created=None,
    deletion=None,
    scheduled=None,
    owners=(),
    predicted="",
    observed="",
    kai_predicted="",
    kai_observed="",
    pod=Pod(""),
)


def live(of: Pod, **fields: Any) -> LivePod:
    """The pod with its own name and uid; whatever else is said of it."""
    return replace(_BARE, **{"uid": of.uid, "namespace": of.namespace, "name": of.name, "pod": of, **fields})


def live_node(name: str, twin: Node) -> LiveNode:
    """The node that the twin is of."""
    allocatable = facts_of(name, twin).allocatable
    return LiveNode(
        name=name,
        uid=f"uid-{name}",
        labels=(),
        taints=(),
        unschedulable=False,
        allocatable=allocatable,
        capacity=allocatable,
        kubelet_version="v1.35.0",
        ready=True,
    )


def complete(name: str, twin: Node, generation: int = 1) -> Report:
    """All of a node, as our agent tells it."""
    return Report(name, str(generation), "numaware", complete=Complete(twin, generation))
