from __future__ import annotations

import pytest

from numaware.schedule.peers.kai import place, score
from numaware.schedule.peers.placement import REFUSED, UNJUDGED
from numaware.schedule.peers.zones import Policy
from support.peer_nodes import GPU, amounts, burstable, guaranteed, pod, topology, zone

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


def test_best_effort_takes_the_fewest_zones_and_refuses_nobody() -> None:
    node = topology(*HALF_USED, policy="best-effort")
    assert place(node, pod(guaranteed(asks(6)))).span == 2
    assert place(node, pod(guaranteed(asks(9)))) == UNJUDGED


@pytest.mark.parametrize(("policy", "scores"), [("best-effort", 50), ("none", 0)])
def test_the_score_is_100_over_the_number_of_zones(policy: Policy, scores: int) -> None:
    assert score(place(topology(*HALF_USED, policy=policy), pod(guaranteed(asks(6))))) == scores
    assert score(place(topology(*HALF_USED), pod(guaranteed(asks(3))))) == 100
    assert score(REFUSED) == 0


def test_a_fraction_of_a_cpu_counts_as_none() -> None:
    node = topology(zone(0, {"cpu": 1, "memory": 8}))
    assert place(node, pod(guaranteed(asks("2500m")))).zones == ((0, amounts({"memory": 1})),)


def test_a_burstable_pod_is_judged_by_its_devices_only() -> None:
    node = topology(zone(0, {"cpu": 1, GPU: 1}), zone(1, {"cpu": 1, GPU: 1}))
    assert place(node, pod(burstable({"cpu": 50, GPU: 1}))).zones == ((0, amounts({GPU: 1})),)
    assert place(node, pod(burstable({"cpu": 50, GPU: 2}))) == REFUSED
    assert place(node, pod(burstable({"cpu": 50}))) == UNJUDGED


def test_resources_that_no_zone_reports_or_that_are_ignored_do_not_count() -> None:
    node = topology(zone(0, {"cpu": 8}), zone(1, {"cpu": 8}))
    assert place(node, pod(guaranteed({"cpu": 8, "memory": "1Ti"}))).admitted
    assert place(node, pod(guaranteed(asks(9))), ignored=frozenset({"cpu"})) == UNJUDGED


def test_sidecars_stay_and_ordinary_init_containers_go() -> None:
    """Where scheduler-plugins forgets the sidecar, KAI does not."""
    node = topology(zone(0, {"cpu": 8, "memory": 8}))
    app = guaranteed(asks(6))
    assert place(node, pod(app, init=(guaranteed(asks(8), "init"),))).admitted
    assert place(node, pod(app, init=(guaranteed(asks(3), "side", sidecar=True),))) == REFUSED


def test_the_pod_scope_places_the_pod_as_one() -> None:
    pair = pod(guaranteed(asks(5), "a"), guaranteed(asks(5), "b"))
    assert place(topology(*EMPTY_NODE), pair).span == 2
    assert place(topology(*EMPTY_NODE, scope="pod"), pair) == REFUSED
    assert place(topology(*EMPTY_NODE, policy="restricted", scope="pod"), pair) == REFUSED
