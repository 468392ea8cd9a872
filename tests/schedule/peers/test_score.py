from __future__ import annotations

from typing import cast

import pytest

from numaware.schedule.peers.score import STRATEGIES, Strategy, StrategyType, score_node
from numaware.schedule.peers.zones import Policy
from numaware.workload.pod import Container, Pod
from support.peer_nodes import GPU, burstable, guaranteed, pod, topology, zone

ASK = pod(guaranteed({"cpu": 2, "memory": "1Gi"}))
# Least: cpu 75, memory 75 -> 75 and cpu 50, memory 50 -> 50.
UNEVEN = (zone(0, {"cpu": 8, "memory": "4Gi"}), zone(1, {"cpu": 4, "memory": "2Gi"}))


def of(kind: str, **weights: int) -> Strategy:
    return Strategy(cast("StrategyType", kind), tuple(weights.items()))


@pytest.mark.parametrize("kind", STRATEGIES)
def test_pods_that_are_not_guaranteed_like_every_node_and_unknown_nodes_are_worth_nothing(kind: str) -> None:
    node = topology(*UNEVEN)
    assert score_node(node, pod(burstable({"cpu": 1})), of(kind)) == 100
    assert score_node(None, ASK, of(kind)) == 0
    assert score_node(node, ASK, of(kind), fresh=False) == 0


@pytest.mark.parametrize("kind", ["LeastAllocated", "MostAllocated", "BalancedAllocation"])
@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted"])
def test_only_single_numa_nodes_are_scored_by_load(kind: str, policy: Policy) -> None:
    assert score_node(topology(*UNEVEN, policy=policy), ASK, of(kind)) == 0


@pytest.mark.parametrize(("kind", "score"), [("LeastAllocated", 50), ("MostAllocated", 25)])
def test_the_score_is_that_of_the_worst_zone_not_of_the_one_used(kind: str, score: int) -> None:
    assert score_node(topology(*UNEVEN), ASK, of(kind)) == score


def test_zones_where_nothing_fits_do_not_count() -> None:
    node = topology(zone(0, {"cpu": 8, "memory": "4Gi"}), zone(1, {"cpu": 1, "memory": 0}))
    assert score_node(node, ASK, of("LeastAllocated")) == 75


def test_a_resource_that_a_zone_lacks_scores_0_and_weighs_all_the_same() -> None:
    node = topology(zone(0, {"cpu": 8, "memory": "4Gi"}))
    asking = pod(guaranteed({"cpu": 2, "memory": "1Gi", GPU: 1}))
    assert score_node(node, asking, of("LeastAllocated")) == (75 + 75) // 3
    assert score_node(node, asking, of("LeastAllocated", cpu=4, memory=0)) == (4 * 75 + 75) // 6


def test_fractions_of_a_cpu_are_rounded_up_for_the_score() -> None:
    node = topology(zone(0, {"cpu": 4, "memory": "4Gi"}))
    assert score_node(node, pod(guaranteed({"cpu": "1100m", "memory": "2Gi"})), of("MostAllocated")) == 50


def test_balanced_allocation_is_one_less_the_variance_of_the_fractions() -> None:
    node = topology(zone(0, {"cpu": 4, "memory": 4, GPU: 4}))
    # 1/4 and 3/4: mean 1/2, sample variance 1/8.
    assert score_node(node, pod(guaranteed({"cpu": 1, "memory": 3})), of("BalancedAllocation")) == 87
    assert score_node(node, pod(guaranteed({"cpu": 2, "memory": 2})), of("BalancedAllocation")) == 100
    assert score_node(node, pod(guaranteed({"cpu": 5, "memory": 2})), of("BalancedAllocation")) == 0


def marked_guaranteed(*containers: Container) -> Pod:
    """A pod whose class the API server recorded, whatever its containers ask for."""
    return Pod("p", containers=containers, qos="Guaranteed")


def test_the_variance_of_fewer_than_two_numbers_becomes_the_lowest_integer() -> None:
    node = topology(zone(0, {"cpu": 4, "memory": 4}))
    one, none = marked_guaranteed(burstable({"cpu": 1})), marked_guaranteed(burstable({}))
    assert score_node(node, one, of("BalancedAllocation")) == -(1 << 63)
    assert score_node(node, none, of("BalancedAllocation")) == -(1 << 63)
    # Beside a container that scores 100 it is half of that, the 100 lost in rounding.
    both = marked_guaranteed(burstable({"cpu": 1}), burstable({"cpu": 1, "memory": 1}))
    assert score_node(node, both, of("BalancedAllocation")) == -(1 << 62)


def test_the_container_scope_takes_the_mean_over_all_containers_cut_off() -> None:
    node = topology(zone(0, {"cpu": 8, "memory": 8}))
    one, other = guaranteed({"cpu": 1, "memory": 1}, "a"), guaranteed({"cpu": 4, "memory": 4}, "b")
    assert score_node(node, pod(one, other), of("LeastAllocated")) == int((87 + 50) / 2)
    as_pod = topology(zone(0, {"cpu": 8, "memory": 8}), scope="pod")
    assert score_node(as_pod, pod(one, other), of("LeastAllocated")) == 37


@pytest.mark.parametrize("kind", ["LeastAllocated", "MostAllocated", "BalancedAllocation"])
def test_sparse_ids_crash_the_plugin_and_score_0_here(kind: str) -> None:
    sparse = topology(zone(0, {"cpu": 8, "memory": 8}), zone(2, {"cpu": 8, "memory": 8}))
    assert score_node(sparse, pod(guaranteed({"cpu": 1, "memory": 1})), of(kind)) == 0


@pytest.mark.parametrize("kind", ["LeastAllocated", "MostAllocated"])
def test_a_container_that_asks_for_nothing_crashes_the_plugin_and_scores_0_here(kind: str) -> None:
    silent = marked_guaranteed(burstable({"cpu": 4, "memory": 4}), burstable({}))
    assert score_node(topology(zone(0, {"cpu": 8, "memory": 8})), silent, of(kind)) == 0
    assert score_node(topology(), silent, of(kind)) == 0


def test_id_64_crashes_the_plugin_and_scores_0_here() -> None:
    node = topology(zone(0, {"cpu": 8, "memory": 8}), zone(64, {"cpu": 8, "memory": 8}))
    for kind in STRATEGIES:
        assert score_node(node, pod(guaranteed({"cpu": 1, "memory": 1})), of(kind)) == 0
