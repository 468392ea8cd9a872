from __future__ import annotations

from msgspec.structs import replace

from numaware.schedule import storm as module
from numaware.schedule.cluster import Cluster
from numaware.schedule.storm import HELD, Storm, StormGuard, owner_of
from numaware.workload.pod import Pod
from numaware.workload.scheduling import Owner, Scheduling
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


# Finding loops


def test_three_refusals_within_seconds_are_a_storm_and_told_once() -> None:
    guard, made = StormGuard(), strict(2)
    first, second = made.members
    assert guard.refused(trainer("a"), first, REASON, 100) is None
    assert guard.refused(trainer("b"), second, REASON, 101) is None
    storm = guard.refused(trainer("c"), first, REASON, 103)
    assert storm is not None
    assert (storm.owner, storm.nodes, storm.count) == ("StatefulSet default/trainer", ("n0", "n1"), 3)
    assert (storm.since, storm.last, storm.reason) == (100, 103, REASON)
    assert guard.refused(trainer("d"), first, REASON, 104) is None
    assert [each.count for each in guard.storms(104)] == [4]


def test_the_way_out_is_proposed_by_the_twin() -> None:
    guard, made = StormGuard(loop=1), strict()
    storm = guard.refused(trainer("a"), made.members[0], REASON, 0)
    assert storm is not None
    assert "set topologyManagerPolicy to restricted (now single-numa-node)" in storm.fix
    assert storm.text.startswith(
        "1 pod of StatefulSet default/trainer refused by n0 within 0 s: TopologyAffinityError. Any of these"
    )


def test_a_refusal_that_the_twin_does_not_understand_is_said_to_be_one() -> None:
    guard, made = StormGuard(loop=1), strict()
    storm = guard.refused(trainer("a", 2), made.members[0], REASON, 0)
    assert storm is not None
    assert storm.fix == ("compare what is known of n0 with its kubelet's own state: by it the pod fits",)


def test_slow_refusals_are_no_storm() -> None:
    guard, made = StormGuard(loop=3, window=10), strict()
    assert [
        guard.refused(trainer(uid), made.members[0], REASON, now)
        for uid, now in zip("abcd", (0, 8, 16, 24), strict=True)
    ] == [None] * 4


def test_a_storm_that_calmed_down_is_over_and_a_new_one_counts_anew() -> None:
    guard, made = StormGuard(loop=2, window=10), strict()
    for now in (0, 1):
        guard.refused(trainer(f"p{now}"), made.members[0], REASON, now)
    assert len(guard.storms(11)) == 1
    assert guard.storms(12) == ()
    assert guard.refused(trainer("x"), made.members[0], REASON, 50) is None
    storm = guard.refused(trainer("y"), made.members[0], REASON, 51)
    assert storm is not None
    assert (storm.count, storm.since) == (2, 50)


def test_owners_are_told_apart() -> None:
    guard, made = StormGuard(loop=2), strict()
    storms = [
        guard.refused(owned(pod(f"p{now}", 12), "Job", name), made.members[0], REASON, now)
        for now, name in enumerate(("a", "b", "a"))
    ]
    assert [storm.owner for storm in storms if storm] == ["Job default/a"]


def test_the_controller_is_the_owner_and_a_bare_pod_its_own() -> None:
    both = (Owner("Node", "n"), Owner("ReplicaSet", "web", controller=True))
    assert owner_of(replace(pod("a"), scheduling=Scheduling(owners=both))) == "ReplicaSet default/web"
    assert owner_of(pod("a")) == "Pod default/a"


def test_the_text_counts_other_nodes_and_names_no_fix_where_there_is_none() -> None:
    storm = Storm("Job default/x", ("n0", "n1", "n2"), 5, 10, 14, REASON, ())
    assert storm.text == f"5 pods of Job default/x refused by n0 and 2 other nodes within 4 s: {REASON}"


def test_memory_is_bounded() -> None:
    guard, made = StormGuard(), strict()
    most = module._MOST
    for number in range(most + 5):
        guard.refused(owned(pod("p", 12), "Job", f"j{number}"), made.members[0], REASON, 0)
    assert not guard.concerns(owned(pod("p", 12), "Job", "j0"))
    assert guard.concerns(owned(pod("p", 12), "Job", f"j{most + 4}"))
