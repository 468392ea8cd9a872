"""Amounts, places for pods, and ports of the host."""

from __future__ import annotations

import pytest

from numaware.diagnose.reason import Reason
from numaware.diagnose.texts import say
from numaware.schedule.filters.node_resources import capacity_reasons, ports_reason
from numaware.workload.demand import Amounts
from numaware.workload.scheduling import EVERY_ADDRESS, HostPort

TAKEN = Reason("host-ports")


def short(requests: Amounts, allocatable: dict[str, int], used: dict[str, int]) -> tuple[str, ...]:
    return tuple(map(say, capacity_reasons(requests, allocatable, used)))


def test_what_is_left_may_be_used_up_exactly() -> None:
    requests = (("cpu", 500), ("pods", 1))
    assert short(requests, {"cpu": 1000, "pods": 2}, {"cpu": 500, "pods": 1}) == ()
    assert short(requests, {"cpu": 1000, "pods": 2}, {"cpu": 501, "pods": 1}) == ("Insufficient cpu",)
    assert short(requests, {"cpu": 1000, "pods": 2}, {"pods": 2}) == ("Too many pods",)


def test_everything_that_is_short_is_told_in_the_order_it_is_looked_at() -> None:
    requests = (
        ("a.example/x", 1),
        ("cpu", 1),
        ("ephemeral-storage", 1),
        ("hugepages-2Mi", 1),
        ("memory", 1),
        ("pods", 1),
    )
    assert short(requests, {}, {}) == (
        "Too many pods",
        "Insufficient cpu",
        "Insufficient memory",
        "Insufficient ephemeral-storage",
        "Insufficient a.example/x",
        "Insufficient hugepages-2Mi",
    )


def test_who_asks_for_nothing_is_not_kept_off_an_overfull_node() -> None:
    assert short((("pods", 1),), {"cpu": 1, "pods": 9}, {"cpu": 5}) == ()
    assert short((("cpu", 0), ("pods", 1)), {"cpu": 1, "pods": 9}, {"cpu": 5}) == ()


@pytest.mark.parametrize(
    ("wanted", "used", "free"),
    [
        (HostPort("TCP", EVERY_ADDRESS, 80), HostPort("TCP", EVERY_ADDRESS, 80), False),
        (HostPort("TCP", "10.0.0.1", 80), HostPort("TCP", EVERY_ADDRESS, 80), False),
        (HostPort("TCP", EVERY_ADDRESS, 80), HostPort("TCP", "10.0.0.1", 80), False),
        (HostPort("TCP", "10.0.0.1", 80), HostPort("TCP", "10.0.0.1", 80), False),
        (HostPort("TCP", "10.0.0.1", 80), HostPort("TCP", "10.0.0.2", 80), True),
        (HostPort("UDP", EVERY_ADDRESS, 80), HostPort("TCP", EVERY_ADDRESS, 80), True),
        (HostPort("TCP", EVERY_ADDRESS, 81), HostPort("TCP", EVERY_ADDRESS, 80), True),
    ],
)
def test_a_port_is_taken_where_protocol_and_number_and_addresses_meet(
    wanted: HostPort, used: HostPort, free: bool
) -> None:
    assert ports_reason([wanted], [used]) == (None if free else TAKEN)


def test_one_taken_port_of_several_is_enough() -> None:
    used = [HostPort("TCP", EVERY_ADDRESS, 80), HostPort("TCP", EVERY_ADDRESS, 443)]
    assert ports_reason([HostPort("TCP", EVERY_ADDRESS, 22), HostPort("TCP", "::", 443)], used) == TAKEN
    assert ports_reason([], used) is None
    assert ports_reason(used, []) is None
