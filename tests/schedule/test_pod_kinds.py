from __future__ import annotations

from msgspec.structs import replace

from numaware.schedule.pod_kinds import (
    CLASS_ANNOTATION,
    POLICY_ANNOTATIONS,
    is_exclusive,
    kind_of,
    workload_class,
)
from numaware.workload.pod import NANO, Container, Pod
from numaware.workload.scheduling import Scheduling
from support.twin_nodes import pod

EXCLUSIVE = pod("u", 4)
SHARED = Pod("s", containers=(Container("app", (("cpu", NANO),)),))


def test_a_pod_with_cpus_of_its_own_is_of_the_medium_class() -> None:
    assert is_exclusive(EXCLUSIVE)
    assert workload_class(EXCLUSIVE) == "medium"


def test_a_pod_with_a_policy_of_its_own_is_of_the_high_class() -> None:
    for name in POLICY_ANNOTATIONS:
        asking = replace(EXCLUSIVE, scheduling=Scheduling(annotations=((name, "restricted"),)))
        assert workload_class(asking) == "high"


def test_a_pod_that_shares_cpus_is_of_the_low_class_whatever_policy_it_names() -> None:
    asking = replace(SHARED, scheduling=Scheduling(annotations=((POLICY_ANNOTATIONS[0], "restricted"),)))
    assert workload_class(SHARED) == workload_class(asking) == "low"


def test_a_pod_with_a_device_is_exclusive_without_any_cpus() -> None:
    assert workload_class(pod("u", gpu=1)) == "medium"


def test_the_priority_class_decides_before_the_pod_itself_and_the_annotation_before_both() -> None:
    by_priority = replace(SHARED, scheduling=Scheduling(priority_class="numaware-high"))
    by_both = replace(
        SHARED,
        scheduling=Scheduling(priority_class="numaware-high", annotations=((CLASS_ANNOTATION, "medium"),)),
    )
    assert workload_class(by_priority) == "high"
    assert workload_class(by_both) == "medium"


def test_an_annotation_that_is_no_class_counts_for_nothing() -> None:
    odd = replace(SHARED, scheduling=Scheduling(annotations=((CLASS_ANNOTATION, "urgent"),)))
    assert workload_class(odd) == "low"


def test_pods_that_differ_in_name_only_are_of_one_kind() -> None:
    assert kind_of(pod("a", 4)) == kind_of(pod("b", 4))
    assert kind_of(pod("a", 4)) != kind_of(pod("a", 5))


def test_an_overhead_makes_another_kind_although_the_managers_do_not_see_it() -> None:
    heavy = replace(EXCLUSIVE, overhead=(("cpu", NANO),))
    assert heavy.shape == EXCLUSIVE.shape
    assert kind_of(heavy) != kind_of(EXCLUSIVE)
