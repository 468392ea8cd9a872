"""The lab's world: schedulers choose, kubelets judge, owners make refused pods anew."""

from __future__ import annotations

import msgspec
import pytest

from numaware.errors import InputError
from numaware.simulate.policies import POLICIES
from numaware.simulate.run import RECREATIONS, run
from numaware.simulate.traces import SECOND, FinishEvent, NodeEvent
from support.lab_worlds import cluster, guaranteed, timeless, trace
from support.twin_nodes import GI

# On one node of 2 x 8 CPUs: the third finds 3 + 4 CPUs free, enough in all, but on no single NUMA node.
FULL = trace(*(guaranteed(name, 4) for name in ("a", "b")), guaranteed("c", 5))
STORY = trace(*(guaranteed(f"vmstorage-{index}", 5) for index in range(3)))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_is_the_same_every_time(policy: str) -> None:
    pods = trace(*(guaranteed(f"p{index}", 1 + index % 3, gpu=index % 2) for index in range(20)))
    small = cluster(3, gpus=4)
    assert timeless(run(small, pods, policy, 5)) == timeless(run(small, pods, policy, 5))


@pytest.mark.parametrize("policy", POLICIES)
def test_every_pod_is_placed_where_there_is_room_for_all(policy: str) -> None:
    pods = trace(*(guaranteed(f"p{index}", 2, gpu=1) for index in range(6)))
    result = run(cluster(3, gpus=4), pods, policy, 1)
    assert result.run.pods_placed == result.run.pods_total == 6
    assert result.run.unplaced_by_reason == {}
    assert result.run.kubelet_refusals == 0


def test_a_stateful_set_that_cannot_align_storms_by_node_totals_and_is_held_by_ours() -> None:
    totals = run(cluster(1), STORY, "kube-scheduler", 1)
    assert totals.run.kubelet_refusals == RECREATIONS + 1
    assert totals.refusals_by_reason == {"TopologyAffinityError": RECREATIONS + 1}
    assert totals.run.unplaced_by_reason == {"TopologyAffinityError": 1}
    [storm] = totals.storms
    assert (storm.owner, storm.nodes, storm.count) == ("vmstorage-2", ("n0",), RECREATIONS + 1)
    assert storm.last - storm.since == RECREATIONS * SECOND
    ours = run(cluster(1), STORY, "numaware", 1)
    assert ours.run.kubelet_refusals == 0
    assert ours.storms == ()
    assert ours.run.unplaced_by_reason == {"node(s) could not align the pod on NUMA nodes (restricted)": 1}
    assert ours.run.pods_placed == totals.run.pods_placed == 2


def test_a_refused_pod_is_made_anew_only_so_often() -> None:
    assert run(cluster(1), STORY, "kube-scheduler", 1, recreations=3).run.kubelet_refusals == 4


def test_a_pod_that_fits_nowhere_waits_until_something_is_freed() -> None:
    pods = trace(guaranteed("a", 14), guaranteed("b", 14), lifetime=60 * SECOND)
    result = run(cluster(1, "none"), pods, "kube-scheduler", 1)
    assert result.run.pods_placed == 2
    assert result.wait_most_ms == 59 * SECOND
    assert result.wait_mean_ms == 59 * SECOND // 2


def test_allocation_is_what_was_asked_for_when_the_last_pod_had_arrived() -> None:
    result = run(
        cluster(1, "none", gpus=4),
        trace(guaranteed("a", 3, 32 * GI, gpu=1), guaranteed("b", 3, GI, share=500)),
        "numaware",
        1,
    )
    assert result.run.cpu_allocated_percent == 40.0
    assert result.run.memory_allocated_percent == round(100 * 33 / 128, 2)
    assert result.run.device_allocated_percent == {"gpu": 37.5}
    last = result.series[-1]
    assert (last.arrived, last.placed, last.running, last.pending) == (2, 2, 2, 0)
    assert [(tile.node, tile.pods, tile.cpu) for tile in result.tiles] == [("n0", 2, 400)]


@pytest.mark.parametrize("policy", POLICIES)
def test_pods_of_a_drained_node_are_made_anew_elsewhere_and_none_comes_back_to_it(policy: str) -> None:
    pods = trace(guaranteed("a", 2), guaranteed("b", 2), guaranteed("c", 2))
    drained = msgspec.structs.replace(pods, node_events=(NodeEvent(1500, "drain", "n0"),))
    result = run(cluster(2), drained, policy, 1)
    assert result.run.pods_placed == 3
    assert {tile.node: tile.pods for tile in result.tiles} == {"n0": 0, "n1": 3}


def test_a_lost_node_is_empty_when_it_returns() -> None:
    events = (NodeEvent(1500, "lose", "n0"), NodeEvent(5000, "return", "n0"))
    pods = msgspec.structs.replace(trace(guaranteed("a", 14), guaranteed("b", 1)), node_events=events)
    result = run(cluster(1, "none"), pods, "kube-scheduler", 1)
    assert result.run.pods_placed == 2
    assert result.wait_most_ms == 5000 - 1500
    gone = run(cluster(1, "none"), msgspec.structs.replace(pods, node_events=events[:1]), "numaware", 1)
    assert gone.run.pods_placed == 0
    assert gone.run.unplaced_by_reason == {"node(s) were unschedulable": 2}


def test_an_event_for_a_node_that_is_not_there_is_refused() -> None:
    wrong = msgspec.structs.replace(FULL, node_events=(NodeEvent(0, "drain", "nowhere"),))
    with pytest.raises(InputError, match="there is no node 'nowhere' to drain"):
        run(cluster(1), wrong, "numaware", 1)


def test_an_owner_that_is_done_makes_no_refused_pod_anew() -> None:
    """Ten CPUs fit no NUMA node of eight, which node totals do not see; after three seconds the owner is gone."""
    played = msgspec.structs.replace(trace(guaranteed("a", 10)), finishes=(FinishEvent(3 * SECOND, "a"),))
    result = run(cluster(1, "single-numa-node"), played, "kube-scheduler", 1)
    assert result.run.kubelet_refusals == 3


def test_pods_of_an_owner_can_be_finished_and_make_room() -> None:
    pods = msgspec.structs.replace(
        trace(guaranteed("a", 14), guaranteed("b", 14)), finishes=(FinishEvent(9000, "a"),)
    )
    result = run(cluster(1, "none"), pods, "kube-scheduler", 1)
    assert result.run.pods_placed == 2
    assert result.wait_most_ms == 8000


def test_a_scheduler_whose_cache_lags_finds_room_a_while_later() -> None:
    """The OverReserve cache takes the first pod from both NUMA nodes until the next resync."""
    pods = trace(guaranteed("a", 5), guaranteed("b", 5))
    result = run(cluster(1, "single-numa-node"), pods, "scheduler-plugins", 1)
    assert result.run.pods_placed == 2
    assert result.run.kubelet_refusals == 0
    assert result.wait_most_ms == 300 * SECOND
    at_leisure = run(
        cluster(1, "single-numa-node"),
        trace(*(one.pod for one in pods.pods), gap=10 * SECOND),
        "scheduler-plugins",
        1,
    )
    assert at_leisure.wait_most_ms == 0


def test_an_unknown_policy_names_those_there_are() -> None:
    with pytest.raises(InputError, match="known: numaware, kube-scheduler"):
        run(cluster(1), FULL, "best", 1)


def test_progress_is_told_until_the_last_pod() -> None:
    heard: list[tuple[int, int]] = []
    run(cluster(1), FULL, "random", 1, progress=lambda done, everything: heard.append((done, everything)))
    assert heard == [(1, 3), (2, 3), (3, 3)]
