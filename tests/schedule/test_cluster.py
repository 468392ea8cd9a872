from __future__ import annotations

import pytest

from numaware.schedule import cluster as module
from numaware.schedule.cluster import Cluster
from numaware.schedule.shares import Share
from numaware.workload.pod import Container
from support.small_clusters import cluster_of, facts_of, gpu_node, owned, share_pod
from support.twin_nodes import GI, GPU, pod, pod_of, sized, state_key


def test_members_stand_in_order_of_their_names_whatever_order_they_came_in() -> None:
    node = gpu_node()
    made = Cluster((facts_of(name, node), node) for name in ("b", "c", "a"))
    assert [member.name for member in made] == ["a", "b", "c"]


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
    before = state_key(made.members[0].node)
    made.bind(pod("a", 4, gpu=1), "n0")
    released = made.release("a")
    assert released is made.members[0]
    assert state_key(made.members[0].node) == before
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
    assert state_key(member.node) == state_key(gpu_node())


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
    assert list(made.changed_since(seen)) == ["n0", "n2"]
    assert list(made.changed_since(made.serial)) == []


def test_a_reader_that_lags_too_far_looks_at_every_member(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_CHANGES", 4)
    made = cluster_of(gpu_node(), gpu_node())
    early = made.serial
    for number in range(6):
        made.bind(pod(f"p{number}", 1), "n1")
    assert made.serial == 6
    assert list(made.changed_since(early)) == ["n0", "n1"]
    assert list(made.changed_since(made.serial - 1)) == ["n1"]


def test_a_node_that_is_put_stands_in_order_of_its_name() -> None:
    node = gpu_node()
    made = Cluster((facts_of(name, node), node) for name in ("a", "c"))
    made.put(facts_of("b", node), node)
    assert [member.name for member in made] == ["a", "b", "c"]
    made.drop("a")
    assert [member.name for member in made] == ["b", "c"]


def test_pods_that_a_twin_brings_are_counted() -> None:
    node = gpu_node().admit(pod("a", 4, gpu=1)).node
    made = Cluster([(facts_of("n", node), node)])
    assert made.where == {"a": made.members[0]}
    assert made.members[0].load.used == {"cpu": 4000, "memory": GI, GPU: 1, "pods": 1}


def test_a_new_description_leaves_the_pods_where_they_are() -> None:
    made = cluster_of(gpu_node())
    made.bind(pod("a", 4), "n0")
    load = made.members[0].load
    made.put(facts_of("n0", gpu_node(), unschedulable=True))
    assert made.members[0].load is load
    assert made.members[0].facts.unschedulable


def test_a_new_twin_says_which_pods_are_there() -> None:
    made = cluster_of(gpu_node(), gpu_node())
    made.bind(pod("gone", 4), "n0")
    made.bind(pod("moved", 2), "n1")
    made.put(facts_of("n0", gpu_node()), gpu_node().admit(pod("moved", 2)).node)
    first, second = made.members
    assert made.where == {"moved": first}
    assert first.load.used == {"cpu": 2000, "memory": GI, "pods": 1}
    assert not any(second.load.used.values())


def test_whatever_goes_wrong_meanwhile_a_pod_that_was_thought_away_is_there_again() -> None:
    node = gpu_node()
    cluster = Cluster([(facts_of("n0", node), node)])
    cluster.place(pod("a", 2), "n0")
    with pytest.raises(ZeroDivisionError), cluster.without("a"):
        raise ZeroDivisionError
    assert "a" in cluster.where
    cluster.put(facts_of("n1", node), node)


def test_a_node_without_a_twin_has_to_be_known() -> None:
    made = cluster_of(gpu_node())
    with pytest.raises(KeyError):
        made.put(facts_of("other", gpu_node()))


def test_nodes_do_not_change_in_the_middle_of_a_plan() -> None:
    made = cluster_of(gpu_node(), gpu_node())
    mark = made.mark()
    made.bind(pod("a", 4), "n0")
    with pytest.raises(ValueError, match="undone"):
        made.put(facts_of("n0", gpu_node()), gpu_node())
    with pytest.raises(ValueError, match="undone"):
        made.drop("n1")
    made.undo(mark)
    made.drop("n1")
    assert list(made.by_name) == ["n0"]


def test_who_shares_a_gpu_is_still_known_when_a_node_of_the_same_kind_is_put() -> None:
    made = cluster_of(gpu_node())
    made.bind(share_pod("a", 400), "n0", share=Share(1, 1000))
    told = gpu_node().admit(share_pod("a", 400)).node.admit(share_pod("b", 300)).node
    made.put(facts_of("n0", told), told)
    load = made.members[0].load
    assert (load.sharers, load.shares, set(load.astray)) == ({"a": 2}, {2: 600}, {"b"})


def test_a_pod_bound_by_others_is_counted_where_the_twin_would_put_it() -> None:
    bound, placed = cluster_of(gpu_node()), cluster_of(gpu_node())
    bound.bind(pod("a", 4, gpu=1), "n0")
    assert placed.place(pod("a", 4, gpu=1), "n0")
    assert placed.members[0].load.used == bound.members[0].load.used
    assert state_key(placed.members[0].node) == state_key(bound.members[0].node)


def test_a_pod_that_the_twin_would_refuse_is_astray_and_so_are_owners_after_it() -> None:
    made = cluster_of(gpu_node("single-numa-node"))
    before = state_key(made.members[0].node)
    assert not made.place(pod("wide", 12), "n0")
    assert not made.place(pod("later", 2), "n0")
    assert made.place(pod_of("shared", Container("app", sized({"cpu": 1}))), "n0")
    load = made.members[0].load
    assert load.astray == {"wide", "later"}
    assert load.used["cpu"] == 15000
    assert state_key(load.node) == before
    made.release("wide")
    made.release("later")
    assert not made.members[0].load.astray


def test_a_pod_whose_shared_gpu_nobody_names_is_astray() -> None:
    made = cluster_of(gpu_node())
    assert not made.place(share_pod("a", 400), "n0")
    assert made.members[0].load.astray == {"a"}


def test_a_pod_that_is_told_again_keeps_what_it_has_and_may_move() -> None:
    made = cluster_of(gpu_node(), gpu_node())
    made.bind(pod("a", 4), "n0")
    load = made.members[0].load
    told = owned(pod("a", 4), "Job", "j")
    assert made.place(told, "n0")
    assert made.members[0].pods["a"] is told
    assert state_key(made.members[0].node) == state_key(load.node)
    assert made.place(pod("a", 6), "n0")
    assert made.members[0].load.used["cpu"] == 6000
    assert made.place(pod("a", 6), "n1")
    assert made.where == {"a": made.members[1]}
    assert not any(made.members[0].load.used.values())
