from __future__ import annotations

import pytest

from numaware.schedule.peers.filtering import SUCCESS, Status, filter_node
from numaware.schedule.peers.zones import Policy, Scope
from numaware.workload.pod import Pod
from support.peer_nodes import GPU, Amounts, burstable, guaranteed, pod, topology, zone

REPORTED = frozenset({"cpu", "memory", GPU, "hugepages-2Mi"})
SMALL: Amounts = {"cpu": 2, "memory": "1Gi"}
HALVES = (zone(0, {"cpu": 4, "memory": "4Gi"}), zone(1, {"cpu": 4, "memory": "4Gi"}))


def refused(what: str) -> Status:
    return Status("Unschedulable", (what,))


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted"])
def test_only_single_numa_node_is_enforced(policy: Policy) -> None:
    node = topology(*HALVES, policy=policy)
    assert filter_node(node, REPORTED, pod(guaranteed({"cpu": 6, "memory": "1Gi"}))) == SUCCESS


def test_a_request_that_only_both_nodes_together_could_hold_is_refused() -> None:
    assert filter_node(topology(*HALVES), REPORTED, pod(guaranteed({"cpu": 6, "memory": "1Gi"}))) == refused(
        "cannot align container"
    )


def test_a_request_of_exactly_what_is_left_fits() -> None:
    whole = pod(guaranteed({"cpu": 4, "memory": "4Gi"}))
    assert filter_node(topology(*HALVES), REPORTED, whole) == SUCCESS


def test_resources_on_different_nodes_do_not_align() -> None:
    node = topology(
        zone(0, {"cpu": 4, "memory": "1Gi", GPU: 0}), zone(1, {"cpu": 0, "memory": "1Gi", GPU: 1})
    )
    assert filter_node(node, REPORTED, pod(guaranteed({**SMALL, GPU: 1}))) == refused(
        "cannot align container"
    )


def test_a_node_without_data_is_passed_and_one_with_old_data_is_not() -> None:
    assert filter_node(None, REPORTED, pod(guaranteed(SMALL))) == SUCCESS
    stale = filter_node(topology(*HALVES), REPORTED, pod(guaranteed(SMALL)), fresh=False)
    assert stale == refused("invalid node topology data")


@pytest.mark.parametrize(
    ("asking", "verdict"),
    [
        (pod(burstable({})), SUCCESS),
        (pod(burstable({GPU: 0})), refused("invalid node topology data")),
        (pod(burstable({"cpu": 1})), refused("invalid node topology data")),
    ],
    ids=["nothing", "zero devices", "some CPU"],
)
def test_best_effort_pods_skip_the_plugin_unless_they_name_a_device(asking: Pod, verdict: Status) -> None:
    assert filter_node(topology(*HALVES), REPORTED, asking, fresh=False) == verdict


def test_cpu_and_memory_of_a_burstable_pod_fit_wherever_they_are_listed() -> None:
    node = topology(zone(0, {"cpu": 0, "memory": 0, GPU: 1}), zone(1, {GPU: 1}))
    asking = pod(burstable({"cpu": 90, "memory": "900Gi", GPU: 1}))
    assert filter_node(node, REPORTED, asking) == SUCCESS
    # Its devices are counted, and on the one node that lists CPUs there is only one.
    twice = pod(burstable({"cpu": 1, GPU: 1}, "a"), burstable({"cpu": 1, GPU: 1}, "b"))
    assert filter_node(node, REPORTED, twice) == refused("cannot align container")


def test_a_resource_that_no_zone_lists_is_taken_from_the_machine_only_if_it_is_no_numa_resource() -> None:
    bare = topology(zone(0, {"cpu": 4, "memory": "4Gi"}))
    host = {**SMALL, GPU: 1, "ephemeral-storage": "1Gi"}
    assert filter_node(bare, REPORTED, pod(guaranteed(host))) == SUCCESS
    huge = pod(guaranteed({**SMALL, "hugepages-2Mi": "2Mi"}))
    assert filter_node(bare, REPORTED, huge) == refused("cannot align container")


@pytest.mark.parametrize(
    ("resource", "fits"),
    [(GPU, False), ("kubernetes.io/batch", False), ("ephemeral-storage", True), ("example.com/none", False)],
)
def test_a_resource_that_the_node_does_not_report_fits_nowhere(resource: str, fits: bool) -> None:
    status = filter_node(
        topology(*HALVES), frozenset({"cpu", "memory"}), pod(guaranteed({**SMALL, resource: 1}))
    )
    assert (status == SUCCESS) is fits


def test_zero_of_anything_is_no_constraint() -> None:
    asking = pod(guaranteed({**SMALL, "example.com/none": 0, "hugepages-2Mi": 0}))
    assert filter_node(topology(*HALVES), REPORTED, asking) == SUCCESS


def test_containers_are_taken_from_the_lowest_node_one_after_another() -> None:
    three = pod(*(guaranteed({"cpu": 3, "memory": "1Gi"}, name) for name in "abc"))
    assert filter_node(topology(*HALVES), REPORTED, three) == refused("cannot align container")
    two = pod(*(guaranteed({"cpu": 3, "memory": "1Gi"}, name) for name in "ab"))
    assert filter_node(topology(*HALVES), REPORTED, two) == SUCCESS


@pytest.mark.parametrize(("sidecar", "word"), [(False, "init"), (True, "sidecar")])
def test_init_containers_are_tried_alone_and_nothing_stays_taken(sidecar: bool, word: str) -> None:
    """The plugin's mistake: a sidecar of 4 CPUs and an app of 4 share one node of 4."""
    one = topology(zone(0, {"cpu": 4, "memory": "4Gi"}))
    first = guaranteed({"cpu": 4, "memory": "1Gi"}, "first", sidecar=sidecar)
    assert filter_node(one, REPORTED, pod(guaranteed({"cpu": 4, "memory": "1Gi"}), init=(first,))) == SUCCESS
    large = guaranteed({"cpu": 5, "memory": "1Gi"}, "large", sidecar=sidecar)
    assert filter_node(one, REPORTED, pod(guaranteed(SMALL), init=(large,))) == refused(
        f"cannot align {word} container"
    )


def test_the_pod_scope_asks_for_the_sum_or_the_largest_init_container_plus_overhead() -> None:
    node = topology(zone(0, {"cpu": 4, "memory": "8Gi"}), scope="pod")
    pair = (guaranteed(SMALL, "a"), guaranteed(SMALL, "b"))
    init = (guaranteed({"cpu": 4, "memory": "1Gi"}, "i"),)
    assert filter_node(node, REPORTED, pod(*pair, init=init)) == SUCCESS
    assert filter_node(node, REPORTED, pod(*pair, overhead={"cpu": "1m"})) == refused("cannot align pod")


def test_fractions_are_compared_exactly() -> None:
    node = topology(zone(0, {"cpu": "1500m", "memory": "1Gi"}))
    assert filter_node(node, REPORTED, pod(guaranteed({"cpu": "1500m", "memory": 1}))) == SUCCESS
    assert filter_node(node, REPORTED, pod(guaranteed({"cpu": "1501m", "memory": 1}))) != SUCCESS


def test_two_zones_of_one_id_can_come_short_after_they_were_found_good() -> None:
    node = topology(zone(0, {"cpu": 8, "memory": "1Gi"}), zone(0, {"cpu": 2, "memory": "1Gi"}))
    status = filter_node(node, REPORTED, pod(guaranteed({"cpu": 4, "memory": 1})))
    assert status.code == "Error"
    assert status.reasons == (
        "inconsistent resource accounting",
        'resource "cpu" request 4 exceeds NUMA 0 availability 2',
    )


@pytest.mark.parametrize("scope", ["pod", "container"])
def test_id_64_which_crashes_the_plugin_is_refused_here(scope: Scope) -> None:
    node = topology(*HALVES, zone(64, SMALL), scope=scope)
    assert filter_node(node, REPORTED, pod(guaranteed(SMALL))) == refused(
        "a NUMA node with id 64 crashes the plugin"
    )
    assert filter_node(topology(zone(64, SMALL), policy="none"), REPORTED, pod(guaranteed(SMALL))) == SUCCESS
