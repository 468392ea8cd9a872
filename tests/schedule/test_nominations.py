from __future__ import annotations

import pytest
from msgspec.structs import replace

from numaware.schedule.engine import Engine
from numaware.schedule.nominations import NOMINATED
from numaware.workload.pod import Pod
from numaware.workload.scheduling import Scheduling
from support.small_clusters import cluster_of, gpu_node
from support.twin_nodes import pod


def ranked(uid: str, cpus: int, priority: int = 0) -> Pod:
    return replace(pod(uid, cpus), scheduling=Scheduling(priority=priority))


def room(cached: bool = True) -> Engine:
    """One node with NUMA nodes of 7 and 8 CPUs; the first is held by two pods that are being deleted."""
    engine = Engine(cluster_of(gpu_node("single-numa-node")), cached=cached)
    for uid, cpus in (("v1", 4), ("v2", 3), ("other", 8)):
        engine.cluster.place(ranked(uid, cpus), "n0")
    for uid in ("v1", "v2"):
        engine.cluster.placed_pods.set_leaving(uid, leaving=True)
    return engine


def taken(engine: Engine, asking: Pod) -> bool:
    """Both ways to ask say the same."""
    (answer,) = engine.ask(asking, ["n0"])
    assert (engine.decide(asking).node == "n0") is answer.admitted
    assert answer.admitted or answer.reasons == (NOMINATED,)
    return answer.admitted


@pytest.mark.parametrize("cached", [True, False])
def test_room_that_becomes_free_piece_by_piece_is_left_to_whom_it_was_made_for(cached: bool) -> None:
    engine = room(cached)
    assert engine.nominations.put(ranked("urgent", 7, 10), "n0") == {"n0"}
    engine.cluster.release("v1")
    assert not taken(engine, ranked("small", 2))
    assert not taken(engine, ranked("equal", 2, 10))
    assert taken(engine, ranked("above", 2, 11))
    assert engine.nominations.drop("urgent") == {"n0"}
    assert taken(engine, ranked("small", 2))


def test_who_fits_beside_it_may_come_and_it_is_not_in_its_own_way() -> None:
    engine = room()
    engine.nominations.put(ranked("urgent", 4, 10), "n0")
    engine.cluster.release("v1")
    # With the other one gone there are seven for both.
    assert taken(engine, ranked("small", 3))
    assert not taken(engine, ranked("large", 4))
    assert taken(engine, ranked("urgent", 4, 10))


def test_nothing_is_kept_for_one_that_would_not_fit_all_the_same() -> None:
    engine = room()
    engine.nominations.put(ranked("huge", 9, 10), "n0")
    engine.cluster.release("v1")
    assert taken(engine, ranked("small", 4))


def test_several_find_their_places_beside_each_other() -> None:
    engine = room()
    engine.nominations.put(ranked("one", 3, 10), "n0")
    engine.cluster.release("v1")
    assert taken(engine, ranked("small", 4))
    engine.nominations.put(ranked("two", 4, 10), "n0")
    assert not taken(engine, ranked("small", 4))


def test_one_that_has_a_place_already_is_given_no_second_one() -> None:
    """It is assumed to be there, and the watch has not told yet that it is nominated no longer."""
    engine = room()
    engine.nominations.put(ranked("urgent", 3, 10), "n0")
    engine.cluster.release("v1")
    engine.cluster.release("v2")
    assert not taken(engine, ranked("small", 5))
    engine.cluster.place(ranked("urgent", 3, 10), "n0")
    assert taken(engine, ranked("small", 4))


def test_one_that_was_put_elsewhere_needs_its_room_no_longer() -> None:
    engine = Engine(cluster_of(gpu_node("single-numa-node"), gpu_node("single-numa-node")))
    for uid, cpus, node in (("other", 8, "n0"), ("first", 7, "n1")):
        engine.cluster.place(ranked(uid, cpus), node)
    engine.nominations.put(ranked("urgent", 7, 10), "n0")
    small = ranked("small", 2)
    assert engine.ask(small, ["n0"])[0].reasons == (NOMINATED,)
    engine.cluster.place(ranked("urgent", 7, 10), "n1")
    assert engine.ask(small, ["n0"])[0].admitted


def test_who_begins_to_leave_is_counted_as_gone_at_once() -> None:
    engine = room()
    engine.cluster.placed_pods.set_leaving("v2", leaving=False)
    engine.nominations.put(ranked("urgent", 7, 10), "n0")
    engine.cluster.release("v1")
    assert taken(engine, ranked("small", 2))
    engine.cluster.placed_pods.set_leaving("v2", leaving=True)
    assert not taken(engine, ranked("small", 2))


def test_only_changes_are_news_and_nothing_is_left_behind() -> None:
    nominations = room().nominations
    assert nominations.put(ranked("urgent", 7, 10), "n0") == {"n0"}
    assert nominations.put(ranked("urgent", 7, 10), "n0") == set()
    assert nominations.put(ranked("urgent", 7, 10), "n1") == {"n0", "n1"}
    assert nominations.drop("urgent") == {"n1"}
    assert nominations.drop("urgent") == set()
    assert not nominations.nodes
