"""Which news could change the answer to a pod that no node takes: what kube-scheduler calls queueing hints.

A refusal is a reason for every node, and each kind of reason goes away by one kind of news only. The scheduler
(`serve/stuck_pods.py`) asks again about a pod only where the news is of a kind that its reasons wait for. What is not
listed here waits for anything that happens to a node: asked once too often is slow, once too seldom is a pod forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from numaware.diagnose.reason import Code, Reason

# The pod itself is another; its node is described anew; something about its node is other; other pods, wherever they are.
Cure = Literal["pod", "description", "node", "others"]

_CURES: dict[Code, Cure] = {
    "scheduling-gates": "pod",
    "workload-class": "pod",
    "allocations": "pod",
    "pod-group": "pod",
    "pod-unreadable": "pod",
    "node-affinity": "description",
    "node-name": "description",
    "node-features": "description",
    "untolerated-taint": "description",
    "unschedulable": "description",
    "topology-spread-label": "description",
    "volcano-cpu-policy": "description",
    "volcano-no-numa-info": "description",
    "volcano-policy": "description",
    "topology-spread": "others",
    "pod-affinity": "others",
    "pod-anti-affinity": "others",
    "existing-anti-affinity": "others",
}


def cures(reasons: Iterable[Reason]) -> frozenset[Cure]:
    """The kinds of news that could do away with one of the reasons; without any reason there is no node yet."""
    return frozenset(_CURES.get(reason.code, "node") for reason in reasons) or frozenset({"description"})
