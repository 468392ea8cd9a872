"""What cannot be judged is said to be so."""

from __future__ import annotations

from numaware.schedule.constraints import cannot_judge
from numaware.workload.scheduling import Scheduling


def test_a_pod_without_claims_can_be_judged() -> None:
    assert cannot_judge(Scheduling()) == ""


def test_claims_are_named_and_a_long_list_is_cut() -> None:
    assert cannot_judge(Scheduling(claims=("data",))) == (
        "cannot be judged: the pod waits for 1 volume claim (data) to be bound, and those decide about the node too"
    )
    assert "4 volume claims (a, b, c, …) to be bound" in cannot_judge(Scheduling(claims=("a", "b", "c", "d")))


def test_volumes_and_devices_are_both_told() -> None:
    text = cannot_judge(Scheduling(claims=("data",), resource_claims=("gpu\x1b",)))
    assert (
        "1 volume claim (data) to be bound and 1 resource claim (gpu\N{REPLACEMENT CHARACTER}) (DRA)" in text
    )
