from __future__ import annotations

import pytest

from numaware.schedule.peers.score import Strategy, score_node
from numaware.schedule.peers.zones import Policy, Topology
from numaware.workload.pod import Pod
from support.peer_nodes import GPU, guaranteed, pod, topology, zone

LEAST = Strategy("LeastNUMANodes")
FOUR = {"cpu": 4, "memory": 4}


def square(most: int = 8) -> Topology:
    """Four nodes of 4 CPUs: 0 and 1 are neighbours, 2 and 3 are, all others are far."""
    zones = [
        zone(
            me, FOUR, costs={you: 10 if me == you else 12 if me // 2 == you // 2 else 40 for you in range(4)}
        )
        for me in range(4)
    ]
    return topology(*zones, most=most)


def asks(cpus: int, memory: int = 1) -> Pod:
    return pod(guaranteed({"cpu": cpus, "memory": memory}))


@pytest.mark.parametrize(
    ("cpus", "score"), [(4, 100 - 12 + 6), (8, 100 - 24 + 6), (9, 100 - 36 + 6), (16, 100 - 48 + 6), (17, 0)]
)
def test_each_node_costs_a_step_and_the_best_distance_gives_half_a_step_back(cpus: int, score: int) -> None:
    assert score_node(square(), asks(cpus), LEAST) == score


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
def test_any_policy_is_scored(policy: Policy) -> None:
    assert score_node(topology(zone(0, FOUR, costs={0: 10}), policy=policy), asks(1), LEAST) == 94


def test_a_pair_that_is_not_the_closest_gets_nothing_back() -> None:
    far = {0: 10, 1: 40, 2: 40}
    node = topology(
        zone(0, FOUR, costs=far),
        zone(1, FOUR, costs={0: 40, 1: 10, 2: 12}),
        zone(2, {"cpu": 1, "memory": 1}, costs={0: 40, 1: 12, 2: 10}),
    )
    assert score_node(node, asks(8), LEAST) == 100 - 24


def test_unknown_distances_are_255_and_still_the_least() -> None:
    node = topology(zone(0, FOUR), zone(1, FOUR))
    assert score_node(node, asks(8), LEAST) == 100 - 24 + 6


def test_distances_of_256_and_more_lead_nowhere() -> None:
    node = topology(zone(0, FOUR, costs={0: 300}), zone(1, FOUR, costs={1: 300}))
    assert score_node(node, asks(4), LEAST) == 0


def test_a_zone_that_does_not_list_a_resource_takes_part_in_nothing() -> None:
    node = topology(zone(0, {**FOUR, GPU: 1}), zone(1, FOUR))
    assert score_node(node, pod(guaranteed({"cpu": 8, "memory": 1, GPU: 1})), LEAST) == 0
    assert score_node(node, pod(guaranteed({"cpu": 8, "memory": 1, "example.com/x": 0})), LEAST) == 0


def test_a_pod_that_no_zone_is_about_gets_the_best_score() -> None:
    node = topology(zone(0, {GPU: 1}))
    assert score_node(node, asks(1), LEAST) == 100


def test_the_score_falls_below_0_when_more_nodes_are_used_than_the_settings_allow() -> None:
    assert score_node(square(most=2), asks(16), LEAST) == 100 - 4 * 50 + 25


def test_containers_are_served_one_after_another_and_the_widest_counts() -> None:
    both = pod(guaranteed({"cpu": 4, "memory": 1}, "a"), guaranteed({"cpu": 5, "memory": 1}, "b"))
    # The first takes node 0, so the pair 0 and 1 has too little left and 2 and 3 are used.
    assert score_node(square(), both, LEAST) == 100 - 24 + 6


def test_ids_are_mistaken_for_positions_when_the_zones_are_not_in_order() -> None:
    swapped = topology(zone(1, {"cpu": 4, "memory": 9}), zone(0, {"cpu": 1, "memory": 9}))
    pair = pod(guaranteed({"cpu": 4, "memory": 1}, "a"), guaranteed({"cpu": 4, "memory": 1}, "b"))
    # The first container's 4 CPUs are meant to leave node 1, but position 1 is node 0: 4 CPUs are still there.
    assert score_node(swapped, pair, LEAST) == 94


def test_an_id_past_the_end_crashes_the_plugin_and_scores_0_here() -> None:
    assert score_node(topology(zone(5, FOUR)), asks(1), LEAST) == 0
    sparse = topology(zone(5, FOUR), scope="pod")
    assert score_node(sparse, asks(1), LEAST) == 94


def test_more_zones_than_anybody_could_combine_are_refused_in_words() -> None:
    many = topology(*(zone(number, {"cpu": 1, "memory": 1}) for number in range(40)), scope="pod")
    with pytest.raises(ValueError, match="40 zones taken 20 at a time"):
        score_node(many, asks(20), LEAST)
    assert score_node(many, asks(41), LEAST) == 0
