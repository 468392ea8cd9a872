"""What happened on one node that its last report does not show: pods that came and went, in order, and the node after that.

Used by `cluster_cache.py` whenever it works a node out anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from numaware.serve.node_estimate import PodOnNode, counted_pod
from numaware.twin.errors import KubeletPanic
from numaware.twin.node import Node


class PodEvent(NamedTuple):
    """A pod came, or (`gone`) went."""

    order: int
    held: PodOnNode
    gone: bool


def waiting_since(held: Mapping[str, PodOnNode], counted: frozenset[str]) -> list[int]:
    """When the pods came that are there and not counted yet."""
    return [one.came for uid, one in held.items() if one.gone is None and uid not in counted]


def was_beside(held: PodOnNode, waiting: Iterable[int]) -> bool:
    """Whether a pod that is gone was still there when one of these came, and so decided about its place."""
    return held.gone is not None and any(held.came < came < held.gone for came in waiting)


def unreported(held: Mapping[str, PodOnNode], counted: frozenset[str]) -> list[PodEvent]:
    """What happened on the node that is not counted, in order, as far as it still shows."""
    waiting = waiting_since(held, counted)
    found = []
    for uid, one in held.items():
        if uid not in counted and (one.gone is None or was_beside(one, waiting)):
            found.append(PodEvent(one.came, one, gone=False))
        elif uid not in counted:
            continue
        if one.gone is not None:
            found.append(PodEvent(one.gone, one, gone=True))
    return sorted(found, key=lambda event: event.order)


def after(node: Node, events: list[PodEvent]) -> tuple[Node, list[PodEvent]]:
    """The node after these events, up to the first pod that its kubelet would not take, or that is not known; and what is left."""
    for index, event in enumerate(events):
        if event.gone:
            node = node.release(event.held.live.uid)
            continue
        if event.held.live.unread:
            return node, events[index:]
        try:
            verdict = node.admit(counted_pod(event.held.live.pod, node))
        except KubeletPanic:
            return node, events[index:]
        if not verdict.admitted:
            return node, events[index:]
        node = verdict.node
    return node, []
