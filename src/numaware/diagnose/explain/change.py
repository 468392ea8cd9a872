"""A change that would admit a pod, and the question to the twin by which each one is proven."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from numaware.diagnose.finding import Message
from numaware.twin.errors import KubeletPanic
from numaware.twin.node import Node
from numaware.workload.pod import Pod

Kind = Literal["request", "policy", "option", "evict"]

_FEWEST_TRIES, _MOST_TRIES, _MOST_STEPS = 16, 2048, 1 << 20


class Change(msgspec.Struct, frozen=True):
    """What to change. `patch` is what to apply: to the pod spec, to the kubelet's configuration, or the pods to remove.

    `pod` is the pod that would be admitted then: for a change of its requests the changed one, else the pod itself.
    """

    kind: Kind
    text: Message
    patch: Any
    pod: Pod


def admits(node: Node, pod: Pod) -> bool:
    """Whether the twin admits; a kubelet that would crash does not."""
    try:
        return node.admit(pod).admitted
    except KubeletPanic:
        return False


def tries(node: Node) -> int:
    """How many questions one knob is worth: each costs as many steps as there are sets of NUMA nodes."""
    return max(_FEWEST_TRIES, min(_MOST_TRIES, _MOST_STEPS >> len(node.kubelet.layout.ids)))
