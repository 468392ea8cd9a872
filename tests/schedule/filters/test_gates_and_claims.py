"""What cannot be judged is said to be so."""

from __future__ import annotations

from numaware.diagnose.texts import say
from numaware.schedule.filters import waiting_reason
from numaware.workload.scheduling import PodClaim, Scheduling


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


def test_claims_of_devices_and_groups_are_left_to_kube_scheduler() -> None:
    assert told(Scheduling(claims=("data",), resource_claims=(PodClaim("gpu\x1b"),))) == (
        "the pod has 1 resource claim (gpu\N{REPLACEMENT CHARACTER}) (DRA): "
        "numaware leaves the allocation of claims to kube-scheduler"
    )
    assert told(Scheduling(group="gang")).startswith(
        "the pod belongs to the group gang, and numaware does not"
    )


def test_claims_that_are_known_are_judged_elsewhere() -> None:
    assert waiting_reason(Scheduling(claims=("data",)), knows_volumes=True) is None


def test_an_unknown_workload_class_is_an_error_and_not_the_default() -> None:
    assert told(Scheduling(annotations=(("numaware.io/workload-class", "hgih"),))) == (
        "unknown workload class hgih (numaware.io/workload-class is high, medium or low)"
    )
    assert waiting_reason(Scheduling(annotations=(("numaware.io/workload-class", "low"),))) is None
