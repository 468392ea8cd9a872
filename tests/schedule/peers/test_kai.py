from __future__ import annotations

import msgspec
import pytest

from numaware.schedule.peers.kai import numa_score, packing_score, place, request_of, room_of, type_score
from numaware.schedule.peers.placement import REFUSED, UNJUDGED, UNPLACED
from numaware.workload.pod import NANO
from support.peer_nodes import GPU, amounts, burstable, guaranteed, pod, topology, zone

NIC = "vendor.example/nic"
FULL = {"cpu": 8, "memory": 8, GPU: 2}
HALF = {"cpu": 4, "memory": 8, GPU: 1}
EMPTY_NODE = (zone(0, FULL), zone(1, FULL))
HALF_USED = (zone(0, HALF, FULL), zone(1, HALF, FULL))


def asks(cpu: int | str, **more: int) -> dict[str, str | int]:
    return {"cpu": cpu, "memory": 1, **({GPU: more["gpu"]} if "gpu" in more else {})}


def test_restricted_refuses_what_one_zone_could_hold_if_it_were_empty() -> None:
    """Six CPUs need one zone; both together have them, but two zones are more than needed."""
    node = topology(*HALF_USED, policy="restricted")
    assert place(node, pod(guaranteed(asks(6)))) == REFUSED
    assert place(node, pod(guaranteed(asks(4)))).zones == ((0, amounts({"cpu": 4, "memory": 1})),)


def test_restricted_admits_two_zones_where_two_are_the_least() -> None:
    node = topology(*EMPTY_NODE, policy="restricted")
    wide = place(node, pod(guaranteed({"cpu": 10, "memory": 9})))
    assert wide.zones == ((0, amounts({"cpu": 8, "memory": 8})), (1, amounts({"cpu": 2, "memory": 1})))


def test_restricted_refuses_resources_that_need_different_widths() -> None:
    assert place(topology(*EMPTY_NODE, policy="restricted"), pod(guaranteed(asks(10)))) == REFUSED


def test_restricted_refuses_what_no_zones_could_ever_hold() -> None:
    asking = pod(guaranteed({"cpu": 17, "memory": 17}))
    assert place(topology(*EMPTY_NODE, policy="restricted"), asking) == REFUSED


@pytest.mark.parametrize(("cpu", "admitted"), [(8, True), (9, False)])
def test_single_numa_node_wants_one_zone(cpu: int, admitted: bool) -> None:
    assert place(topology(*EMPTY_NODE), pod(guaranteed(asks(cpu)))).admitted is admitted


def test_best_effort_refuses_nobody() -> None:
    node = topology(*HALF_USED, policy="best-effort")
    assert len(place(node, pod(guaranteed(asks(6)))).zones) == 2
    assert place(node, pod(guaranteed(asks(9)))) == UNPLACED


def test_best_effort_takes_the_zone_that_covers_most_in_raw_units() -> None:
    """A CPU weighs a thousand bytes: zone 1 covers 5,000 of what is missing, zone 0 4,000."""
    zones = zone(0, {"cpu": 4, "memory": 3000}), zone(1, {"cpu": 0, "memory": 5000})
    placement = place(topology(*zones, policy="best-effort"), pod(guaranteed({"cpu": 1, "memory": 5000})))
    assert placement.zones == ((0, amounts({"cpu": 1})), (1, amounts({"memory": 5000})))


def test_a_zone_with_less_than_nothing_takes_away_from_what_others_cover() -> None:
    """Records can say that pods hold more than there is: zone 1 then costs best-effort two CPUs instead of giving one."""
    zones = zone(0, {"cpu": 2, "memory": 1}), zone(1, {"memory": 5000}), zone(2, {"cpu": 1})
    over = msgspec.structs.replace(zones[1], available=(("cpu", -2 * NANO), ("memory", 5000 * NANO)))
    wanted = pod(guaranteed({"cpu": 2, "memory": 5000}))
    assert place(topology(*zones, policy="best-effort"), wanted).admitted
    assert place(topology(*zones, policy="best-effort"), wanted) != UNPLACED
    assert place(topology(zones[0], over, zones[2], policy="best-effort"), wanted) == UNPLACED


def test_what_best_effort_draws_comes_in_the_order_chosen() -> None:
    node = topology(zone(0, {"cpu": 1, "memory": 5}), zone(1, {"cpu": 8, "memory": 5}), policy="best-effort")
    placement = place(node, pod(guaranteed({"cpu": 9, "memory": 6})))
    assert placement.zones == ((0, amounts({"cpu": 1, "memory": 1})), (1, amounts({"cpu": 8, "memory": 5})))


def test_the_numa_score_is_100_over_the_zones_used_or_those_of_a_node_it_is_silent_on() -> None:
    wide = place(topology(*HALF_USED, policy="best-effort"), pod(guaranteed(asks(6))))
    assert numa_score(wide, 2) == 50
    assert numa_score(place(topology(*HALF_USED), pod(guaranteed(asks(3)))), 2) == 100
    nothing = place(topology(*HALF_USED), pod(guaranteed(asks("500m"))), ignored=frozenset({"memory"}))
    assert numa_score(nothing, 2) == 100
    assert numa_score(UNJUDGED, 4) == 25
    assert (numa_score(REFUSED, 2), numa_score(UNPLACED, 2)) == (0, 0)


def test_fuller_nodes_have_more_points_and_pods_without_gpus_avoid_gpus() -> None:
    assert [packing_score(free, 2, 8) for free in (2, 5, 8)] == [9, 4.5, 0]
    assert (packing_score(4, 4, 4), packing_score(0, 0, 0)) == (9, 0)
    assert type_score(wants_gpus=False, has_gpus=False) > 9
    assert type_score(wants_gpus=False, has_gpus=True) == type_score(wants_gpus=True, has_gpus=False) == 0


def test_a_fraction_of_a_cpu_counts_as_none() -> None:
    node = topology(zone(0, {"cpu": 1, "memory": 8}))
    assert place(node, pod(guaranteed(asks("2500m")))).zones == ((0, amounts({"memory": 1})),)


def test_a_burstable_pod_is_judged_by_its_devices_only() -> None:
    node = topology(zone(0, {"cpu": 1, NIC: 1}), zone(1, {"cpu": 1, NIC: 1}))
    assert place(node, pod(burstable({"cpu": 50, NIC: 1}))).zones == ((0, amounts({NIC: 1})),)
    assert place(node, pod(burstable({"cpu": 50, NIC: 2}))) == REFUSED
    assert place(node, pod(burstable({"cpu": 50}))) == UNJUDGED


def test_resources_that_no_zone_reports_or_that_are_ignored_do_not_count() -> None:
    node = topology(zone(0, {"cpu": 8}), zone(1, {"cpu": 8}))
    assert place(node, pod(guaranteed({"cpu": 8, "memory": "1Ti"}))).admitted
    assert place(node, pod(guaranteed(asks(9))), ignored=frozenset({"cpu"})).zones == ()


def test_an_init_container_is_tried_against_what_sidecars_have_not_yet_taken() -> None:
    """The kubelet would refuse: while it runs the sidecar has four of the eight CPUs."""
    node = topology(zone(0, {"cpu": 8, "memory": 8}))
    inits = (guaranteed(asks(4), "side", sidecar=True), guaranteed(asks(8), "init"))
    assert place(node, pod(guaranteed(asks(4)), init=inits)).admitted
    assert place(node, pod(guaranteed(asks(4)), init=(*inits, guaranteed(asks(9), "more")))) == REFUSED


def test_with_scope_pod_each_container_with_a_fraction_of_a_cpu_counts_none() -> None:
    node = topology(zone(0, {"cpu": 8, "memory": 8}), scope="pod")
    pair = pod(guaranteed(asks("1500m"), "a"), guaranteed(asks("2500m"), "b"), overhead={"cpu": 9})
    assert place(node, pair).zones == ((0, amounts({"memory": 2})),)


def test_all_names_of_gpus_are_one_resource_to_zones_but_not_to_pods() -> None:
    node = topology(zone(0, {"cpu": 8, "nvidia.com/gpu": 1, "amd.com/gpu": 1}))
    both = pod(guaranteed({"cpu": 1, "memory": 1, "nvidia.com/gpu": 2}))
    assert place(node, both).zones == ((0, amounts({"cpu": 1, "nvidia.com/gpu": 2})),)
    strange = pod(burstable({"cpu": 1, GPU: 2}))
    assert place(topology(zone(0, {"cpu": 8, GPU: 1})), strange) == UNJUDGED
    assert request_of(strange) == dict(amounts({"cpu": 1}))
    assert room_of(amounts({"nvidia.com/gpu": 4, "amd.com/gpu": 1})) == dict(amounts({"nvidia.com/gpu": 5}))
    assert room_of(amounts({"nvidia.com/gpu": 4, GPU: 3})) == dict(amounts({"nvidia.com/gpu": 3000}))


def test_sidecars_stay_and_ordinary_init_containers_go() -> None:
    """Where scheduler-plugins forgets the sidecar, KAI does not."""
    node = topology(zone(0, {"cpu": 8, "memory": 8}))
    app = guaranteed(asks(6))
    assert place(node, pod(app, init=(guaranteed(asks(8), "init"),))).admitted
    assert place(node, pod(app, init=(guaranteed(asks(3), "side", sidecar=True),))) == REFUSED


def test_the_pod_scope_places_the_pod_as_one() -> None:
    pair = pod(guaranteed(asks(5), "a"), guaranteed(asks(5), "b"))
    assert len(place(topology(*EMPTY_NODE), pair).zones) == 2
    assert place(topology(*EMPTY_NODE, scope="pod"), pair) == REFUSED
    assert place(topology(*EMPTY_NODE, policy="restricted", scope="pod"), pair) == REFUSED
