from __future__ import annotations

from msgspec.structs import replace

from numaware.diagnose.evidence import fit_error
from numaware.diagnose.texts import say
from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Engine
from numaware.schedule.held_room import KEPT, Hold, room_for
from numaware.schedule.message import refusal, room_wanted
from numaware.workload.pod import Pod
from numaware.workload.scheduling import NodeRules, Scheduling
from support.small_clusters import cluster_of, gpu_node
from support.twin_nodes import pod


def ranked(uid: str, cpus: int, priority: int) -> Pod:
    return replace(pod(uid, cpus), scheduling=Scheduling(priority=priority))


def full(*pods: tuple[str, Pod]) -> Engine:
    nodes: Cluster = cluster_of(gpu_node("single-numa-node"), gpu_node("single-numa-node"))
    for name, one in pods:
        nodes.place(one, name)
    return Engine(nodes)


def chosen(engine: Engine, wanted: Pod, *avoid: str) -> Hold | None:
    return room_for(wanted, engine.cluster.members, engine.ask(wanted), avoid)


FULL = (
    ("n0", ranked("a", 7, 5)),
    ("n0", ranked("b", 8, 5)),
    ("n1", ranked("c", 7, 0)),
    ("n1", ranked("d", 4, 0)),
    ("n1", ranked("e", 4, 0)),
)


def test_the_least_important_go_first_and_no_more_of_them_than_must() -> None:
    engine = full(*FULL)
    assert chosen(engine, ranked("large", 8, 10)) == Hold(ranked("large", 8, 10), "n1", ("d", "e"))
    assert chosen(engine, ranked("small", 3, 10)) == Hold(ranked("small", 3, 10), "n1", ("e",))
    assert chosen(engine, ranked("large", 8, 10), "n1") == Hold(ranked("large", 8, 10), "n0", ("b",))


def test_nobody_goes_for_one_that_is_not_more_important_or_that_would_not_fit_all_the_same() -> None:
    engine = full(*FULL)
    assert chosen(engine, ranked("equal", 8, 0)) is None
    assert chosen(engine, ranked("huge", 9, 10)) is None
    elsewhere = Scheduling(priority=10, node=NodeRules(selector=(("disk", "fast"),)))
    assert chosen(engine, replace(pod("picky", 8), scheduling=elsewhere)) is None


def test_what_is_kept_is_kept_from_lower_priorities_only_and_only_what_is_needed() -> None:
    engine = full(*FULL)
    engine.held.hold(Hold(ranked("large", 8, 10), "n1", ("d", "e")))
    engine.cluster.release("d")
    assert engine.decide(ranked("low", 2, 0)).reasons[0][0].code in ("insufficient", "room-held")
    assert engine.ask(ranked("low", 2, 0), ["n1"])[0].reasons == (KEPT,)
    assert engine.decide(ranked("high", 2, 10)).node == "n1"
    engine.cluster.release("c")
    assert engine.decide(ranked("low", 2, 0)).node == "n1"
    assert engine.ask(ranked("low-and-wide", 8, 0), ["n1"])[0].reasons
    engine.held.let_go("large")
    assert engine.decide(ranked("low", 4, 0)).node == "n1"


def test_nothing_is_kept_where_the_pod_would_not_fit_any_more() -> None:
    engine = full(*FULL)
    engine.held.hold(Hold(ranked("large", 8, 10), "n1", ("d", "e")))
    engine.cluster.release("d")
    engine.cluster.place(ranked("important", 2, 20), "n1")
    assert engine.decide(ranked("low", 2, 0)).node == "n1"


def test_what_is_said_of_it_is_read_back_for_other_languages() -> None:
    engine = full(*FULL)
    wanted = ranked("large", 8, 10)
    hold = chosen(engine, wanted)
    assert hold is not None
    for kept in (True, False):
        room = room_wanted(hold, engine.cluster.by_name["n1"], kept=kept)
        message = refusal(engine.decide(wanted), 2, None, room)
        english = say(message)
        assert (
            "would fit on node n1 if default/d, default/e made room; numaware does not preempt yet" in english
        )
        read = fit_error.read(english)
        assert read is not None
        assert say(read, "zh") == say(message, "zh")
