"""Whose turn it is in a pool: one at a time, none after the first failure."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.kubelet_switch.conftest import SwitchedNode
from numaware.kube.kubelet_policies import KubeletPolicy, decode
from numaware.node.kubelet_switch.turn import Move, next_move, wanted_on


def policy(nodes: dict[str, str], wanted: str = "", **spec: Any) -> KubeletPolicy:
    """An order and where nodes stand with it; `wanted` "old" is how they stand with an earlier one."""
    spec = {"kubelet": {"topologyManagerPolicy": "restricted"}, **spec}
    bare = {"metadata": {"name": "p"}, "spec": spec}
    digest = wanted or decode(msgspec.json.encode(bare)).wanted
    entries = {name: {"phase": phase, "wanted": digest} for name, phase in nodes.items()}
    return decode(msgspec.json.encode({**bare, "status": {"nodes": entries}}))


@pytest.mark.parametrize(
    ("nodes", "spec", "move"),
    [
        ({}, {}, "begin"),
        ({"a": "Pending", "b": "Done"}, {}, "begin"),
        ({"a": "Pending", "b": "Switching"}, {}, "wait"),
        ({"a": "Pending", "b": "Switching"}, {"maxUnavailable": 2}, "begin"),
        ({"a": "Pending", "b": "Failed"}, {}, "wait"),
        ({"a": "Pending", "b": "Refused"}, {}, "wait"),
        ({"a": "Pending", "b": "NotAllowed"}, {}, "begin"),
        ({"a": "Done"}, {}, "none"),
        ({"a": "Failed"}, {}, "none"),
        ({}, {"order": "Pause"}, "wait"),
        ({}, {"order": "Abort"}, "wait"),
        ({"a": "Done"}, {"order": "Pause"}, "none"),
        ({"a": "Done"}, {"order": "RollBack"}, "back"),
        ({"a": "Done", "b": "Switching"}, {"order": "RollBack"}, "wait"),
        ({"a": "Pending"}, {"order": "RollBack"}, "none"),
        ({"a": "RolledBack"}, {"order": "Apply"}, "none"),
    ],
)
def test_one_at_a_time_and_none_after_a_failure(
    nodes: dict[str, str], spec: dict[str, Any], move: Move
) -> None:
    assert next_move(policy(nodes, **spec), "a") == move


def test_a_node_that_has_left_the_cluster_keeps_nobody_waiting() -> None:
    order = policy({"a": "Pending", "b": "Switching", "c": "Switching"})
    assert next_move(order, "a", {"b"}) == "wait"
    assert next_move(order, "a", {"b", "c"}) == "begin"
    assert next_move(policy({"a": "Done", "b": "Switching"}, order="RollBack"), "a", {"b"}) == "back"
    # What it failed with is still to be looked into.
    assert next_move(policy({"b": "Failed"}), "a", {"b"}) == "wait"


def test_another_order_makes_nodes_begin_that_are_done_or_have_failed_with_the_last() -> None:
    assert next_move(policy({"a": "Done", "b": "Failed"}, wanted="old"), "a") == "begin"
    first, second = policy({}), policy({}, attempt=1)
    assert first.wanted != second.wanted


_PHASES = st.sampled_from(["Pending", "Switching", "Done", "Failed", "Refused", "RolledBack", "NotAllowed"])


@given(
    st.dictionaries(st.sampled_from("bcdef"), _PHASES),
    st.integers(1, 3),
    st.sampled_from(["Apply", "RollBack"]),
)
def test_never_more_away_than_allowed_whoever_is_asked(nodes: dict[str, str], most: int, order: str) -> None:
    """Each claims with the object as it is: so all are asked one after the other, and each that begins is away."""
    for name in "abcdef":
        before = policy(nodes, maxUnavailable=most, order=order)
        if nodes.get(name) != "Switching" and next_move(before, name) in ("begin", "back"):
            nodes = {**nodes, name: "Switching"}
            assert sum(phase == "Switching" for phase in nodes.values()) <= most


def test_a_selector_names_the_nodes() -> None:
    assert policy({}).covers([])
    assert policy({}, nodeSelector={"pool": "gpu"}).covers([("pool", "gpu"), ("x", "y")])
    assert not policy({}, nodeSelector={"pool": "gpu"}).covers([("pool", "cpu")])


def test_what_is_missing_is_set_on_the_way_and_nothing_else(node: SwitchedNode) -> None:
    order = policy(
        {},
        kubelet={"topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"}},
        whereMissing={
            "topologyManagerPolicy": "best-effort",
            "cpuManagerPolicy": "static",
            "reservedSystemCPUs": "recommended",
        },
    )
    # CPUs are reserved there already, by systemReserved.
    assert wanted_on(order, node.situation()) == {
        "topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"},
        "topologyManagerPolicy": "best-effort",
        "cpuManagerPolicy": "static",
    }
    text = node.config.read_text(encoding="utf-8").replace('{cpu: "1", memory: 1Gi}', "{memory: 1Gi}")
    node.config.write_text(text, encoding="utf-8")
    assert wanted_on(order, node.situation())["reservedSystemCPUs"] == "0,4,8,12"
    node.config.write_text(text + "topologyManagerPolicy: restricted\n", encoding="utf-8")
    assert "topologyManagerPolicy" not in wanted_on(order, node.situation())


def test_an_option_that_never_was_on_is_not_switched_off(node: SwitchedNode) -> None:
    order = policy({}, kubelet={"topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "false"}})
    assert wanted_on(order, node.situation()) == {"topologyManagerPolicyOptions": {}}
    assert not node.planned(**wanted_on(order, node.situation())).steps
