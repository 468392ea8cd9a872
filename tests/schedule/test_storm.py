from __future__ import annotations

from msgspec.structs import replace

from numaware.diagnose.rules.storms import Storm
from numaware.schedule import storm as module
from numaware.schedule.cluster import Cluster
from numaware.schedule.partial_node import partial_node
from numaware.schedule.storm import HELD, StormGuard, owner_of
from numaware.workload.pod import Pod
from numaware.workload.scheduling import Owner, Scheduling
from support.published_counts import published
from support.small_clusters import cluster_of, gpu_node, owned
from support.twin_nodes import pod

REASON = "TopologyAffinityError"


def trainer(uid: str, cpus: int = 12) -> Pod:
    """What a StatefulSet makes again and again, too wide for one NUMA node."""
    return owned(pod(uid, cpus), "StatefulSet", "trainer")


def strict(count: int = 1) -> Cluster:
    return cluster_of(*[gpu_node("single-numa-node")] * count)


# Holding


def test_a_refused_template_is_held_off_that_node_only() -> None:
    guard, made = StormGuard(), strict(2)
    guard.refused(trainer("a"), made.members[0], REASON, 0)
    assert guard.reason(trainer("b"), made.members[0]) == HELD
    assert guard.reason(trainer("b"), made.members[1]) is None


def test_another_shape_or_another_owner_is_another_template() -> None:
    guard, made = StormGuard(), strict()
    guard.refused(trainer("a"), made.members[0], REASON, 0)
    assert guard.reason(trainer("b", 4), made.members[0]) is None
    assert guard.reason(owned(pod("b", 12), "Job", "trainer"), made.members[0]) is None
    assert guard.concerns(trainer("c"))
    assert not guard.concerns(trainer("c", 4))


def test_the_hold_ends_when_the_node_is_in_another_state() -> None:
    guard, made = StormGuard(), strict()
    made.bind(pod("x", 4), "n0")
    guard.refused(trainer("a"), made.members[0], REASON, 0)
    made.release("x")
    assert guard.reason(trainer("b"), made.members[0]) is None
    assert not guard.concerns(trainer("b"))


def test_pods_that_take_nothing_from_the_managers_do_not_end_a_hold() -> None:
    guard, made = StormGuard(), strict()
    guard.refused(trainer("a"), made.members[0], REASON, 0)
    made.bind(pod("tiny"), "n0")
    assert guard.reason(trainer("b"), made.members[0]) == HELD


def test_a_hold_ends_with_time_and_lasts_twice_as_long_after_each_refusal() -> None:
    guard, made = StormGuard(), strict(2)
    now, lasted = 0, []
    for uid in "abcdefghij":
        guard.refused(trainer(uid), made.members[0], REASON, now)
        began = now
        while not (lifted := guard.lift(now)):
            assert guard.reason(trainer("next"), made.members[0]) == HELD
            now += 30_000
        assert lifted == {"n0"}
        assert guard.reason(trainer("next"), made.members[0]) is None
        lasted.append((now - began) // 1000)
    assert lasted == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert guard.lift(now) == set()
    assert not guard.concerns(trainer("next"))


# Finding loops


def stormed(guard: StormGuard, cluster: Cluster, cpus: int = 12) -> Storm:
    """The storm that three refusals of one owner's pods on the first node make."""
    *calm, storm = [
        guard.refused(trainer(uid, cpus), cluster.members[0], REASON, 1000 * now)
        for now, uid in enumerate("abc", 100)
    ]
    assert calm == [None, None]
    assert storm is not None
    return storm


def test_a_storm_is_told_with_the_owner_as_people_name_it() -> None:
    storm = stormed(StormGuard(), strict())
    assert (storm.owner, storm.nodes, storm.count) == ("StatefulSet default/trainer", ("n0",), 3)
    assert (storm.since, storm.last, storm.reason) == (100_000, 102_000, REASON)


def test_the_way_out_is_proposed_by_the_twin() -> None:
    storm = stormed(StormGuard(), strict())
    assert "set topologyManagerPolicy to restricted (now single-numa-node)" in storm.fix
    assert storm.text.startswith(
        "3 pods of StatefulSet default/trainer refused by n0 within 2 s: TopologyAffinityError. Any of these"
    )


def test_a_refusal_that_the_twin_does_not_understand_is_said_to_be_one() -> None:
    storm = stormed(StormGuard(), strict(), cpus=2)
    assert storm.fix == ("compare what is known of n0 with its kubelet's own state: by it the pod fits",)


def test_the_way_out_is_told_once_the_node_that_refuses_is_known() -> None:
    """Its agent may start later than the scheduler."""
    guard, made = StormGuard(), strict()
    known = made.members[0]
    unknown = Cluster([(known.facts, partial_node(published(known.node)))]).members[0]
    assert not guard.has_storm(trainer("a"))
    storm = [guard.refused(trainer(uid), unknown, REASON, 0) for uid in "abc"][-1]
    assert storm is not None
    assert storm.fix == ()
    assert guard.has_storm(trainer("d"))
    assert guard.refused(trainer("d"), unknown, REASON, 1000) is None
    later = guard.refused(trainer("e"), known, REASON, 2000)
    assert later is not None
    assert (later.count, later.since) == (5, 0)
    assert "set topologyManagerPolicy to restricted (now single-numa-node)" in later.fix
    assert guard.refused(trainer("f"), known, REASON, 3000) is None


def test_the_controller_is_the_owner_and_a_bare_pod_its_own() -> None:
    both = (Owner("Node", "n"), Owner("ReplicaSet", "web", controller=True))
    assert owner_of(replace(pod("a"), scheduling=Scheduling(owners=both))) == "ReplicaSet default/web"
    assert owner_of(pod("a")) == "Pod default/a"


def test_memory_is_bounded() -> None:
    guard, made = StormGuard(), strict()
    most = module._MOST
    for number in range(most + 5):
        guard.refused(owned(pod("p", 12), "Job", f"j{number}"), made.members[0], REASON, 0)
    assert not guard.concerns(owned(pod("p", 12), "Job", "j0"))
    assert guard.concerns(owned(pod("p", 12), "Job", f"j{most + 4}"))
