"""NUMA distance as an order to kubelets: what is ordered, what an order says of the switch, and how far it is. Pure.

Switching it on sets `prefer-closest-numa-nodes`; where a kubelet has no topology policy or does not pin CPUs, that is configured
on the way, since the option means nothing without.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import yaml

from numaware.kube.kubelet_policies import KubeletPolicy, NodeStatus
from numaware.sentence import Sentence
from numaware.serve.console.world import Status, SwitchError
from numaware.twin.options import PREFER_CLOSEST

NAME = "numa-distance"
PLACE = f"KubeletPolicy {NAME}"
# The kubelet looks at the option only with a policy, and few pods have hints without pinned CPUs.
_ON_THE_WAY = {
    "topologyManagerPolicy": "best-effort",
    "cpuManagerPolicy": "static",
    "reservedSystemCPUs": "recommended",
}
_OVER = ("Done", "RolledBack", "NotAllowed")


class HowFar(msgspec.Struct, frozen=True):
    """How far an order is: so many of those that act are done; the first that `failed`, and why; who has said nothing yet."""

    done: int
    acting: int
    silent: int
    failed: str = ""
    why: str = ""


def spec_of(status: Status, *, drain: bool = False) -> dict[str, Any]:
    """What is ordered for the switch to stand so."""
    on = status == "open"
    spec: dict[str, Any] = {
        "kubelet": {"topologyManagerPolicyOptions": {PREFER_CLOSEST: "true" if on else "false"}}
    }
    if on:
        spec["whereMissing"] = _ON_THE_WAY
    return {**spec, "drain": True} if drain else spec


def status_of(policy: KubeletPolicy | None) -> Status:
    """How the switch stands; without an order it is off."""
    if policy is None or policy.spec.order in ("RollBack", "Abort"):
        return "close"
    options = policy.spec.kubelet.get("topologyManagerPolicyOptions") or {}
    return "open" if options.get(PREFER_CLOSEST) == "true" else "close"


def conf_for(status: Status, *, drain: bool = False) -> str:
    """What would be ordered, as text."""
    return _text(spec_of(status, drain=drain))


def conf_of(policy: KubeletPolicy | None) -> str:
    """What is ordered, as text."""
    if policy is None:
        return ""
    spec: dict[str, Any] = {"kubelet": dict(policy.spec.kubelet)}
    if policy.spec.where_missing:
        spec["whereMissing"] = dict(policy.spec.where_missing)
    if policy.spec.drain:
        spec["drain"] = True
    return _text(spec)


def how_far(policy: KubeletPolicy, nodes: Collection[str], wanted: str) -> HowFar:
    """How far these nodes are with an order of that content."""
    entries = {name: policy.nodes[name] for name in nodes if name in policy.nodes}
    current = {
        name: one for name, one in entries.items() if one.wanted == wanted or one.phase == "NotAllowed"
    }
    failed = next((name for name, one in current.items() if one.phase in ("Failed", "Refused")), "")
    acting = [name for name, one in entries.items() if one.phase != "NotAllowed"]
    return HowFar(
        sum(_is_over(current.get(name)) for name in acting),
        len(acting),
        sum(name not in entries for name in nodes),
        failed,
        current[failed].message if failed else "",
    )


def still_to_go_back(policy: KubeletPolicy, nodes: Collection[str]) -> int:
    """How many of these nodes have it yet. Of a node that has left an entry may be left, which nobody writes any more."""
    entries = [policy.nodes[name] for name in nodes if name in policy.nodes]
    return sum(one.phase in ("Done", "Switching") for one in entries)


def put_back(node: str, why: str) -> SwitchError:
    """What is said when a node did not take it."""
    problem = Sentence(
        "node {node} did not take it, and all kubelets were put back: {why}", node=node, why=why
    )
    return SwitchError(problem, undone=True)


def called_back() -> SwitchError:
    """What is said when somebody else has ended the order meanwhile."""
    return SwitchError(Sentence("the order was called back, or replaced, before all nodes had it"))


def _is_over(entry: NodeStatus | None) -> bool:
    return entry is not None and entry.phase in _OVER


def _text(spec: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump({"spec": dict(spec)}, sort_keys=True)
    return text
