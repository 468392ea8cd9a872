from __future__ import annotations

import pytest

from numaware.schedule.peers import kai
from numaware.schedule.peers.koordinator import Outcome, Strategy, Totals, WholeCores, place, refusal, score
from numaware.schedule.peers.placement import REFUSED, UNJUDGED
from numaware.workload.pod import NANO, Resources, amount
from support.peer_nodes import GPU, amounts, guaranteed, pod, topology, zone

FULL = {"cpu": 8, "memory": 8}
HALF_USED = (zone(0, {"cpu": 4, "memory": 8}, FULL), zone(1, {"cpu": 4, "memory": 8}, FULL))


def asks(**wanted: int | str) -> Resources:
    return amounts({GPU if name == "gpu" else name: number for name, number in wanted.items()})


def test_restricted_passes_what_the_kubelet_refuses() -> None:
    """Six CPUs fit one zone when it is empty, so the kubelet wants one zone; here two will do."""
    node = topology(*HALF_USED, policy="restricted", scope="pod")
    outcome = place(node, asks(cpu=6, memory=2))
    assert outcome.affinity == (0, 1)
    assert outcome.placement.zones == ((0, asks(cpu=3, memory=1)), (1, asks(cpu=3, memory=1)))
    assert kai.place(node, pod(guaranteed({"cpu": 6, "memory": 2}))) == REFUSED


def test_single_numa_node_wants_one_zone_and_takes_the_emptiest() -> None:
    node = topology(HALF_USED[0], zone(1, {"cpu": 6, "memory": 8}, FULL))
    assert place(node, asks(cpu=4, memory=2)).affinity == (1,)
    assert place(node, asks(cpu=4, memory=2), Strategy(zone_most=True)).affinity == (0,)
    refused = place(node, asks(cpu=7, memory=2))
    assert refused.filtered
    assert refusal(node, asks(cpu=7, memory=2)) == (
        "Unaligned NUMA Hint cause cpu prefer [11] among [11],memory prefer [11] among [11]",
    )


def test_equal_zones_are_taken_from_the_lowest() -> None:
    assert place(topology(*HALF_USED), asks(cpu=1)).affinity == (0,)


def test_a_machine_of_one_zone_keeps_no_affinity_under_single_numa_node() -> None:
    assert place(topology(zone(0, FULL)), asks(cpu=1)) == Outcome(UNJUDGED)
    assert place(topology(zone(0, FULL), policy="restricted"), asks(cpu=1)).affinity == (0,)


def test_a_resource_without_hints_is_unsatisfied() -> None:
    node = topology(zone(0, {"cpu": 2, GPU: 0}), zone(1, {"cpu": 0, GPU: 1}), policy="restricted")
    assert refusal(node, asks(cpu=3)) == ("Unsatisfied NUMA cpu",)
    # The pod as a whole fits both zones only, and each of them has run out of something.
    assert refusal(node, asks(cpu=2, gpu=1)) == ("Unsatisfied NUMA cpu", f"Unsatisfied NUMA {GPU}")


def test_best_effort_passes_the_filter_and_may_fail_to_reserve() -> None:
    node = topology(*HALF_USED, policy="best-effort")
    narrow = place(node, asks(cpu=4, memory=1))
    assert (narrow.affinity, narrow.placement.zones) == (None, ((0, asks(cpu=4, memory=1)),))
    refused = place(node, asks(cpu=9, memory=17))
    assert not refused.filtered
    assert refused.short == ("cpu", "memory")


def test_best_effort_falls_back_to_all_zones() -> None:
    """GPUs and CPUs have no mask in common without an empty zone, which best-effort does not mind."""
    apart = (zone(0, {"cpu": 2, GPU: 0}), zone(1, {"cpu": 0, GPU: 1}))
    outcome = place(topology(*apart, policy="best-effort"), asks(cpu=2, gpu=1))
    assert outcome.placement.zones == ((0, asks(cpu=2)), (1, asks(gpu=1)))


def test_policy_none_and_unknown_resources_are_not_judged() -> None:
    assert place(topology(*HALF_USED, policy="none"), asks(cpu=99)) == Outcome(UNJUDGED)
    assert place(topology(zone(0, {GPU: 1})), asks(cpu=99)) == Outcome(UNJUDGED)


def test_a_request_is_spread_evenly_and_larger_zones_make_up_for_smaller() -> None:
    node = topology(zone(0, {"cpu": 8, GPU: 4}), zone(1, {"cpu": 1, GPU: 4}), policy="restricted")
    assert place(node, asks(cpu=9, gpu=7)).placement.zones == (
        (0, asks(cpu=8, gpu=3)),
        (1, asks(cpu=1, gpu=4)),
    )


@pytest.mark.parametrize(("middle", "affinity"), [(1, (0, 1, 2)), (4, (0, 2))])
def test_the_order_of_a_split_takes_positions_for_ids(middle: int, affinity: tuple[int, ...]) -> None:
    """What zone 1 has decides whether zone 0 or zone 2 is asked first for its half of nine CPUs.

    With one CPU in zone 1 it is zone 2, which gives four, and zone 0 has no five: infeasible, though there are twelve.
    """
    node = topology(zone(0, {"cpu": 4}), zone(1, {"cpu": middle}), zone(2, {"cpu": 8}), policy="restricted")
    assert place(node, asks(cpu=9)).affinity == affinity


def test_of_masks_equally_wide_a_lower_one_wins_whatever_the_scores() -> None:
    """{0,3} has the better score, {1,2} comes later and is the lower number."""
    zones = (
        zone(0, {"cpu": 7}, {"cpu": 8}),
        zone(1, {"cpu": 5}, {"cpu": 8}),
        zone(2, {"cpu": 5}, {"cpu": 8}),
        zone(3, {"cpu": 7}, {"cpu": 8}),
    )
    best = place(topology(*zones, policy="restricted"), asks(cpu=10)).affinity
    assert best == (1, 3)


def test_the_score_is_what_the_used_zones_have_left_or_the_node_without_affinity() -> None:
    node, request = topology(*HALF_USED), asks(cpu=2, memory=4)

    def totals() -> Totals:
        return dict(asks(cpu=16, memory=16)), dict(asks(cpu=8))

    # Zone 0 keeps 2 of 8 CPUs and 4 of 8 bytes.
    assert score(place(node, request), node, request, totals) == (25 + 50) // 2
    assert score(place(node, request), node, request, totals, Strategy(most=True)) == (75 + 50) // 2
    silent = topology(*HALF_USED, policy="none")
    assert score(place(silent, request), silent, request, totals) == (37 + 75) // 2


def test_only_resources_with_a_weight_count_and_devices_only_where_asked_for() -> None:
    node = topology(zone(0, {"cpu": 8, GPU: 4}), zone(1, {"cpu": 8, GPU: 4}))
    weighted = Strategy(weights=(("cpu", 1), (GPU, 3)))
    for request, expected in ((asks(cpu=2), 75), (asks(cpu=2, gpu=2), (75 + 3 * 50) // 4)):
        assert score(place(node, request), node, request, lambda: ({}, {}), weighted) == expected


def test_more_zones_than_masks_can_be_listed_of_are_refused_in_words() -> None:
    many = topology(*(zone(number, {"cpu": 1}) for number in range(17)), policy="restricted")
    with pytest.raises(ValueError, match="17 zones"):
        place(many, asks(cpu=1))


def test_where_only_whole_cores_are_given_away_zones_have_what_is_left_of_them() -> None:
    """Six CPUs on two zones are three each, or four and two in cores of two; a broken core is no use to anybody."""
    node = topology(*HALF_USED, policy="restricted")
    cores = WholeCores(2 * NANO, {0: 4 * NANO, 1: 4 * NANO})
    assert [amount(given, "cpu") for _, given in place(node, asks(cpu=6)).placement.zones] == [3 * NANO] * 2
    whole = place(node, asks(cpu=6), cores=cores).placement.zones
    assert [amount(given, "cpu") // NANO for _, given in whole] == [2, 4]
    broken = cores._replace(free={0: 2 * NANO, 1: 2 * NANO})
    assert place(node, asks(cpu=6), cores=broken).filtered


def test_with_cpus_of_its_own_a_pod_is_scored_by_those_that_have_an_owner() -> None:
    node, request = topology(*HALF_USED), asks(cpu=2, memory=4)
    outcome = place(node, request)
    assert score(outcome, node, request, lambda: ({}, {}), bound_cpus=NANO) == ((8 - 3) * 100 // 8 + 50) // 2
