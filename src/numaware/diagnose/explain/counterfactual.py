"""The smallest changes that would admit a refused pod, each proven by asking the twin again.

One knob is turned at a time: a smaller request, another policy, another option, or pods that would have to go. What is
proposed has been tried; what could not be proven is not proposed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice
from typing import Any

import msgspec

from numaware.diagnose.explain.change import Change, admits, tries
from numaware.diagnose.explain.request_changes import request_changes
from numaware.diagnose.finding import Message
from numaware.twin.account import held_by, pod_name
from numaware.twin.config import KubeletConfig, Options
from numaware.twin.errors import StartError
from numaware.twin.gotext import parse_bool
from numaware.twin.kubelet import start
from numaware.twin.node import Node, Verdict
from numaware.twin.options import CPU_STAGES, MAX_ALLOWABLE, STRICT_RESERVATION, TOPOLOGY_STAGES
from numaware.workload.pod import Pod

# From strict to lax; a laxer policy is proposed only when no stricter one admits.
_POLICIES = ("single-numa-node", "restricted", "best-effort", "none")
# Pods considered for eviction in pairs and more, the largest holders first.
_MOST_VICTIMS = 12


def changes(node: Node, pod: Pod, verdict: Verdict) -> tuple[Change, ...]:
    """Changes that each, alone, make the node admit the pod; nearest to what was asked first."""
    return (
        *request_changes(node, pod, verdict),
        *_policies(node, pod),
        *_options(node, pod),
        *_evictions(node, pod),
    )


# Kubelet configuration


def _policies(node: Node, pod: Pod) -> Iterator[Change]:
    config = node.kubelet.config
    if config.topology_policy in _POLICIES:
        for policy in _POLICIES[_POLICIES.index(config.topology_policy) + 1 :]:
            if _admits_with(node, pod, topology_policy=policy):
                yield _setting(pod, "topologyManagerPolicy", policy, config.topology_policy)
                break
    if config.topology_policy != "none":
        scope = "pod" if config.topology_scope == "container" else "container"
        if _admits_with(node, pod, topology_scope=scope):
            yield _setting(pod, "topologyManagerScope", scope, config.topology_scope)


def _setting(pod: Pod, field: str, value: str, current: str) -> Change:
    text = Message("change-setting", {"field": field, "value": value, "current": current})
    return Change("policy", text, {field: value}, pod)


def _options(node: Node, pod: Pod) -> Iterator[Change]:
    config = node.kubelet.config
    for field, key, known in (
        ("cpu_options", "cpuManagerPolicyOptions", CPU_STAGES),
        ("topology_options", "topologyManagerPolicyOptions", TOPOLOGY_STAGES),
    ):
        current: Options = getattr(config, field)
        for name in sorted(known):
            # Strict reservation changes which CPUs the state files may mention: no change to make on a live node. The
            # limit of NUMA nodes decides whether a kubelet starts, never about a pod.
            if name in (STRICT_RESERVATION, MAX_ALLOWABLE):
                continue
            on = parse_bool(dict(current).get(name, "false"))
            others = tuple(pair for pair in current if pair[0] != name)
            options = others if on else tuple(sorted((*others, (name, "true"))))
            if _admits_with(node, pod, **{field: options}):
                text = Message("change-remove" if on else "change-add", {"option": name})
                yield Change("option", text, {key: dict(options)}, pod)


def _admits_with(node: Node, pod: Pod, **changed: Any) -> bool:
    """Whether the node would admit under another configuration that can take over its state as it is."""
    config: KubeletConfig = msgspec.structs.replace(node.kubelet.config, **changed)
    try:
        kubelet = start(node.kubelet.hardware, config)
        if kubelet.cpus and kubelet.cpus.restore(node.state.cpu).shared != node.state.cpu.shared:
            return False
    except StartError:
        return False
    return admits(Node(kubelet, node.state), pod)


# Eviction


def _evictions(node: Node, pod: Pod) -> Iterator[Change]:
    victims = _smallest_eviction(node, pod)
    if victims:
        names = [pod_name(node, uid) for uid in victims]
        leaving = [_reference(node, uid) for uid in victims]
        yield Change("evict", Message("change-evict", {"pods": names}), {"evict": leaving}, pod)


def _smallest_eviction(node: Node, pod: Pod) -> tuple[str, ...]:
    """The fewest pods whose leaving admits the pod, small ones first among equally few.

    Beyond three at once only what cannot be left out is known, not that there is no other way with fewer.
    """
    holders = sorted(
        (uid for uid in node.state.pods if uid != pod.uid and any(_held(node, uid))),
        key=lambda uid: (_held(node, uid), uid),
    )
    few = (
        uids
        for size in (1, 2, 3)
        for uids in combinations(holders if size == 1 else holders[-_MOST_VICTIMS:], size)
    )
    for uids in islice(few, tries(node)):
        if admits(node.release(*uids), pod):
            return uids
    if not admits(node.release(*holders), pod):
        return ()
    leaving = holders
    for uid in reversed(holders):
        others = [other for other in leaving if other != uid]
        if admits(node.release(*others), pod):
            leaving = others
    return tuple(leaving)


def _held(node: Node, uid: str) -> tuple[int, int, int]:
    """How much a pod holds: CPUs, bytes, devices."""
    held = held_by(node.state, uid)
    return (
        held.cpus.bit_count(),
        sum(block.size for block in held.memory),
        sum(mask.bit_count() for mask in held.devices.values()),
    )


def _reference(node: Node, uid: str) -> dict[str, str]:
    pod = node.state.pods[uid]
    named = {"namespace": pod.namespace, "name": pod.name} if pod.namespace else {}
    return {**named, "uid": uid}
