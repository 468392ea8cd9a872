"""What cannot be judged is said to be so."""

from __future__ import annotations

from numaware.diagnose.texts import say
from numaware.schedule.filters import waiting_reason
from numaware.workload.scheduling import Scheduling


def test_a_pod_without_claims_can_be_judged() -> None:
    assert waiting_reason(Scheduling()) is None


def told(scheduling: Scheduling) -> str:
    reason = waiting_reason(scheduling)
    assert reason is not None
    return say(reason)


def test_claims_are_named_and_a_long_list_is_cut() -> None:
    assert told(Scheduling(claims=("data",))) == (
        "cannot be judged: the pod waits for 1 volume claim (data) to be bound, and those decide about the node too"
    )
    assert "4 volume claims (a, b, c, …) to be bound" in told(Scheduling(claims=("a", "b", "c", "d")))


def test_volumes_and_devices_are_both_told() -> None:
    text = told(Scheduling(claims=("data",), resource_claims=("gpu\x1b",)))
    assert (
        "1 volume claim (data) to be bound and 1 resource claim (gpu\N{REPLACEMENT CHARACTER}) (DRA)" in text
    )


def test_an_unknown_workload_class_is_an_error_and_not_the_default() -> None:
    assert told(Scheduling(annotations=(("numaware.io/workload-class", "hgih"),))) == (
        "unknown workload class hgih (numaware.io/workload-class is high, medium or low)"
    )
    assert waiting_reason(Scheduling(annotations=(("numaware.io/workload-class", "low"),))) is None
