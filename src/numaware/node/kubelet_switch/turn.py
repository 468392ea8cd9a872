"""Whose turn it is in a pool, and what an order means on one node. Pure: the object as it was read decides."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Literal

from numaware.diagnose.recommend.reservation import kept_cpus
from numaware.kube.kubelet_policies import KubeletPolicy, NodeStatus, PolicySpec
from numaware.machine.cpuset import list_form
from numaware.node.kubelet_switch.edit import Wanted
from numaware.node.kubelet_switch.plan import Situation
from numaware.twin import kubelet_fields
from numaware.twin.hardware import layout
from numaware.twin.inventory import hardware_of
from numaware.twin.reservation import node_reservation
from numaware.twin.settings import Settings

# What a node does next: begin the switch, begin the way back, wait for others (and say so), or nothing.
Move = Literal["begin", "back", "wait", "none"]
# In `whereMissing` of an order: as many CPUs as `numaware config recommend` would reserve.
RECOMMENDED = "recommended"
_NOTHING = (None, "none", "None", (), "")


def next_move(policy: KubeletPolicy, node: str, gone: Collection[str] = ()) -> Move:
    """What this node does, as far as the object says; nodes that have `gone` from the cluster keep nobody waiting."""
    mine = policy.nodes.get(node, NodeStatus())
    current = mine.wanted == policy.wanted
    order = policy.spec.order
    if order == "RollBack":
        if mine.phase != "Done":
            return "none"
        return "back" if _free(policy, node, gone) else "wait"
    if current and mine.phase in ("Done", "Failed", "Refused", "RolledBack"):
        return "none"
    if order != "Apply":
        return "wait"
    if any(
        one.phase in ("Failed", "Refused") and one.wanted == policy.wanted for one in policy.nodes.values()
    ):
        return "wait"
    return "begin" if _free(policy, node, gone) else "wait"


def away(policy: KubeletPolicy, node: str) -> list[str]:
    """The others that are being switched, as far as the object says."""
    return sorted(name for name, one in policy.nodes.items() if one.phase == "Switching" and name != node)


def _free(policy: KubeletPolicy, node: str, gone: Collection[str]) -> bool:
    """Whether one more may be away."""
    busy = [name for name in away(policy, node) if name not in gone]
    return len(busy) < max(1, policy.spec.max_unavailable)


def wanted_on(policy: KubeletPolicy, situation: Situation) -> Wanted:
    """What the order comes to on a node: what is missing there is set on the way."""
    settings = situation.place.read(situation.version).settings
    return wanted_with(policy.spec, settings, lambda: _recommended(situation))


def wanted_with(spec: PolicySpec, settings: Settings, recommended: Callable[[], str | None]) -> Wanted:
    """The same for a kubelet with these settings; `recommended` are the CPUs to keep for the system where none are."""
    wanted: dict[str, Any] = dict(spec.kubelet)
    for field, value in spec.where_missing.items():
        setting = kubelet_fields.SETTING_OF.get(field)
        if field in wanted or setting is None or getattr(settings, setting) not in _NOTHING:
            continue
        if field == "reservedSystemCPUs" and value == RECOMMENDED:
            if (cpus := recommended()) is not None:
                wanted[field] = cpus
            continue
        wanted[field] = value
    return {name: _unchanged_left_out(name, value, settings) for name, value in wanted.items()}


def _unchanged_left_out(field: str, value: Any, settings: Settings) -> Any:
    """An option that is to be off, and was never on, need not be written."""
    if not isinstance(value, dict):
        return value
    known = dict(getattr(settings, kubelet_fields.SETTING_OF.get(field, ""), None) or ())
    return {key: member for key, member in value.items() if key in known or member != "false"}


def _recommended(situation: Situation) -> str | None:
    """The CPUs to keep for the system; None where some are kept already."""
    hardware = hardware_of(situation.machine, ())
    config = situation.place.read(situation.version).config
    if "cpu" in node_reservation(config, hardware.numa):
        return None
    return list_form(kept_cpus(situation.machine, layout(hardware.numa), generous=False))
