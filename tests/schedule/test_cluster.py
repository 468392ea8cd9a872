from __future__ import annotations

import pytest

from numaware.schedule import cluster as module
from numaware.schedule.cluster import Cluster
from numaware.schedule.shares import Share
from small_clusters import cluster_of, facts_of, gpu_node, share_pod
from twin_nodes import GI, GPU, pod


def test_members_stand_in_order_of_their_names_whatever_order_they_came_in() -> None:
    node = gpu_node()
    made = Cluster((facts_of(name, node), node) for name in ("b", "c", "a"))
    assert [member.name for member in made] == ["a", "b", "c"]
    assert [member.index for member in made] == [0, 1, 2]


def test_a_pod_that_is_bound_is_on_the_node_and_counted() -> None:
    made = cluster_of(gpu_node(), gpu_node())
    assert made.bind(pod("a", 4, gpu=1), "n1").admitted
    member = made.by_name["n1"]
    assert made.where["a"] is member
    assert member.load.used == {"cpu": 4000, "memory": GI, GPU: 1, "pods": 1}
    assert made.by_name["n0"].load.used == {}


def test_a_refusal_changes_nothing() -> None:
    made = cluster_of(gpu_node("single-numa-node"))
    before = made.members[0].load
    verdict = made.bind(pod("a", 12), "n0")
    assert (verdict.admitted, verdict.reason) == (False, "TopologyAffinityError")
    assert made.members[0].load is before
    assert made.where == {}
    assert made.serial == 0


def test_a_pod_that_is_released_leaves_the_node_as_it_was() -> None:
    made = cluster_of(gpu_node())
    before = made.members[0].node.key()
    made.bind(pod("a", 4, gpu=1), "n0")
    released = made.release("a")
    assert released is made.members[0]
    assert made.members[0].node.key() == before
    assert not any(made.members[0].load.used.values())


def test_releasing_a_pod_nobody_knows_does_nothing() -> None:
    assert cluster_of(gpu_node()).release("nobody") is None


def test_pods_share_a_gpu_and_the_last_one_gives_it_back() -> None:
    made = cluster_of(gpu_node())
    made.bind(share_pod("a", 400), "n0", share=Share(1, 1000))
    made.bind(share_pod("b", 600), "n0", share=Share(1, 600))
    member = made.members[0]
    assert member.load.shares == {2: 0}
    assert member.load.sharers == {"a": 2, "b": 2}
    made.release("a")
    assert member.load.shares == {2: 400}
    made.release("b")
    assert (member.load.shares, member.load.sharers) == ({}, {})
    assert member.node.key() == gpu_node().key()


def test_undo_takes_back_arrivals_and_departures() -> None:
    made = cluster_of(gpu_node(), gpu_node())
    made.bind(pod("old", 2), "n0")
    loads = [member.load for member in made]
    mark = made.mark()
    made.bind(pod("new", 4, gpu=1), "n1")
    made.release("old")
    assert made.undo(mark) == ["old", "new"]
    assert [member.load for member in made] == loads
    assert made.where == {"old": made.members[0]}


def test_undo_to_an_inner_mark_keeps_what_came_before_it() -> None:
    made = cluster_of(gpu_node())
    outer = made.mark()
    made.bind(pod("a", 2), "n0")
    inner = made.mark()
    made.bind(pod("b", 2), "n0")
    made.undo(inner)
    assert list(made.where) == ["a"]
    made.undo(outer)
    assert made.where == {}


def test_what_is_kept_cannot_be_undone() -> None:
    made = cluster_of(gpu_node())
    mark = made.mark()
    made.bind(pod("a", 2), "n0")
    made.keep()
    assert made.undo(mark) == []
    assert list(made.where) == ["a"]


def test_readers_are_told_which_members_changed() -> None:
    made = cluster_of(gpu_node(), gpu_node(), gpu_node())
    seen = made.serial
    for uid, name in (("a", "n2"), ("b", "n0"), ("c", "n2")):
        made.bind(pod(uid, 2), name)
    assert list(made.changed_since(seen)) == [0, 2]
    assert list(made.changed_since(made.serial)) == []


def test_a_reader_that_lags_too_far_looks_at_every_member(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_CHANGES", 4)
    made = cluster_of(gpu_node(), gpu_node())
    early = made.serial
    for number in range(6):
        made.bind(pod(f"p{number}", 1), "n1")
    assert made.serial == 6
    assert list(made.changed_since(early)) == [0, 1]
    assert list(made.changed_since(made.serial - 1)) == [1]
