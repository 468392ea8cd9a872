from __future__ import annotations

import pytest

from numaware.schedule.peers import kai
from numaware.schedule.peers.koordinator import place, score
from numaware.schedule.peers.placement import REFUSED, UNJUDGED
from numaware.schedule.peers.zones import Policy
from support.peer_nodes import GPU, amounts, guaranteed, pod, topology, zone

FULL = {"cpu": 8, "memory": 8}
HALF_USED = (zone(0, {"cpu": 4, "memory": 8}, FULL), zone(1, {"cpu": 4, "memory": 8}, FULL))


def test_restricted_passes_what_the_kubelet_refuses() -> None:
    """Six CPUs fit one zone when it is empty, so the kubelet wants one zone; here two will do."""
    node = topology(*HALF_USED, policy="restricted", scope="pod")
    asking = pod(guaranteed({"cpu": 6, "memory": 2}))
    assert place(node, asking).zones == (
        (0, amounts({"cpu": 3, "memory": 1})),
        (1, amounts({"cpu": 3, "memory": 1})),
    )
    assert kai.place(node, asking) == REFUSED


def test_single_numa_node_wants_one_zone() -> None:
    node = topology(*HALF_USED)
    assert place(node, pod(guaranteed({"cpu": 4, "memory": 2}))).span == 1
    assert place(node, pod(guaranteed({"cpu": 5, "memory": 2}))) == REFUSED


def test_the_pod_is_looked_at_as_one_whatever_the_scope() -> None:
    pair = pod(guaranteed({"cpu": 3, "memory": 1}, "a"), guaranteed({"cpu": 3, "memory": 1}, "b"))
    assert place(topology(*HALF_USED, scope="container"), pair) == REFUSED


@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
def test_what_cannot_be_allocated_is_refused_under_every_policy(policy: Policy) -> None:
    assert place(topology(*HALF_USED, policy=policy), pod(guaranteed({"cpu": 9, "memory": 1}))) == REFUSED


def test_policy_none_and_unknown_resources_are_not_judged() -> None:
    assert place(topology(*HALF_USED, policy="none"), pod(guaranteed({"cpu": 99, "memory": 1}))) == UNJUDGED
    assert place(topology(zone(0, {GPU: 1})), pod(guaranteed({"cpu": 99, "memory": 1}))) == UNJUDGED


def test_a_zone_that_has_run_out_of_a_resource_is_no_hint_for_it() -> None:
    """Two CPUs come from zone 0, the GPU only from zone 1, and together they have no common mask."""
    apart = (zone(0, {"cpu": 2, GPU: 0}), zone(1, {"cpu": 0, GPU: 1}))
    asking = pod(guaranteed({"cpu": 2, "memory": 1, GPU: 1}))
    assert place(topology(*apart, policy="best-effort"), asking) == REFUSED


def test_a_request_is_spread_evenly_and_larger_zones_make_up_for_smaller() -> None:
    node = topology(
        zone(0, {"cpu": 8, GPU: 4}), zone(1, {"cpu": 1, GPU: 4}), policy="restricted", scope="pod"
    )
    placement = place(node, pod(guaranteed({"cpu": 9, "memory": 1, GPU: 7})))
    assert placement.zones == ((0, amounts({"cpu": 8, GPU: 3})), (1, amounts({"cpu": 1, GPU: 4})))


def test_uneven_crumbs_find_room() -> None:
    """Whole-unit shares would leave a rest that the last zone cannot hold."""
    node = topology(zone(0, {"memory": "1500m"}), zone(1, {"memory": "1500m"}), policy="restricted")
    assert place(node, pod(guaranteed({"memory": 3, "cpu": 1}))).zones == (
        (0, amounts({"memory": "1500m"})),
        (1, amounts({"memory": "1500m"})),
    )


def test_the_score_is_what_the_used_zones_have_left() -> None:
    node = topology(*HALF_USED)
    placement = place(node, pod(guaranteed({"cpu": 2, "memory": 4})))
    # Zone 0 keeps 2 of 8 CPUs and 4 of 8 bytes.
    assert score(node, placement) == (25 + 50) // 2
    assert score(node, REFUSED) == 0


def test_more_zones_than_masks_can_be_listed_of_are_refused_in_words() -> None:
    many = topology(*(zone(number, {"cpu": 1}) for number in range(17)), policy="restricted")
    with pytest.raises(ValueError, match="17 zones"):
        place(many, pod(guaranteed({"cpu": 1, "memory": 1})))
