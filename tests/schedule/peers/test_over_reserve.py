from __future__ import annotations

from numaware.schedule.peers.filtering import SUCCESS, filter_node
from numaware.schedule.peers.over_reserve import assume
from support.peer_nodes import GPU, amounts, burstable, guaranteed, pod, topology, zone

REPORTED = frozenset({"cpu", "memory", GPU})
NODE = topology(zone(0, {"cpu": 4, "memory": 8, GPU: 1}), zone(1, {"cpu": 4, "memory": 8}))


def test_a_pod_is_taken_from_every_zone_that_lists_the_resource() -> None:
    after = assume(NODE, [pod(burstable({"cpu": 3, GPU: 1}))])
    assert [one.available for one in after.zones] == [
        amounts({"cpu": 1, "memory": 8, GPU: 0}),
        amounts({"cpu": 1, "memory": 8}),
    ]
    assert [one.allocatable for one in after.zones] == [one.allocatable for one in NODE.zones]


def test_nothing_goes_below_zero() -> None:
    after = assume(NODE, [pod(burstable({"cpu": 3})), pod(burstable({"cpu": 3}))])
    assert [dict(one.available)["cpu"] for one in after.zones] == [0, 0]


def test_one_assumed_pod_blocks_a_node_that_has_room_on_the_other_zone() -> None:
    """The price of not guessing: half the machine is free, and the next pod waits for the report."""
    half = pod(guaranteed({"cpu": 3, "memory": 1}))
    assert filter_node(NODE, REPORTED, half) == SUCCESS
    assert filter_node(assume(NODE, [half]), REPORTED, half) != SUCCESS
