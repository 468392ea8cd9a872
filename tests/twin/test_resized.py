"""What the kubelet of each release answers to a pod that is to be resized in place."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from numaware.twin.node import Node
from numaware.twin.resize import Resize, resized
from numaware.workload.pod import Pod
from support.twin_nodes import GI, admitted, config, container, machine, pod, pod_of, sized

NEVER = "Resize is infeasible for Guaranteed Pods alongside"
WHOLE = (("full-pcpus-only", "true"),)


def shared(uid: str, memory: int) -> Pod:
    """A Burstable pod: requests without limits."""
    asked = container(amounts={"cpu": 1, "memory": memory})
    return pod_of(uid, replace(asked, limits=()))


@pytest.mark.parametrize("version", ["v1.34.11", "v1.35.8", "v1.36.4", "v1.37.1"])
def test_cpus_of_a_guaranteed_pod_beside_the_static_policy(version: str) -> None:
    node = admitted(Node.fresh(machine(), config(version=version)), pod("a", 2, GI))
    assert resized(node, pod("a", 3, GI)) == Resize("Infeasible", f'{NEVER} CPU Manager policy "static"')
    assert resized(node, pod("a", 2, 2 * GI)) == Resize("accepted")


@pytest.mark.parametrize("version", ["v1.34.11", "v1.35.8", "v1.36.4", "v1.37.1"])
def test_memory_beside_the_static_policy(version: str) -> None:
    node = admitted(Node.fresh(machine(), config(version=version, memory=True)), pod("a", 2, GI))
    assert resized(node, pod("a", 2, 2 * GI)) == Resize(
        "Infeasible", f'{NEVER} Memory Manager policy "Static"'
    )


def test_v1_33_does_not_look_at_what_changes() -> None:
    node = admitted(Node.fresh(machine(), config(version="v1.33.2")), pod("a", 2, GI))
    assert resized(node, pod("a", 2, 2 * GI)) == Resize("Infeasible", f"{NEVER} CPU Manager static policy")


@pytest.mark.parametrize(
    ("version", "answer"),
    [
        ("v1.33.2", Resize("accepted")),
        ("v1.34.11", Resize("Infeasible", f'{NEVER} Memory Manager policy "Static"')),
    ],
)
def test_v1_33_has_one_gate_for_both_managers(version: str, answer: Resize) -> None:
    settings = config(version=version, memory=True)
    gates = (*settings.feature_gates, ("InPlacePodVerticalScalingExclusiveCPUs", True))
    node = Node.fresh(machine(), replace(settings, feature_gates=gates))
    assert resized(admitted(node, pod("a", 2, GI)), pod("a", 2, 2 * GI)) == answer


@pytest.mark.parametrize("version", ["v1.33.2", "v1.35.8", "v1.36.4"])
def test_a_pod_that_stays_as_it_is_asks_for_nothing(version: str) -> None:
    node = Node.fresh(machine(1, 8, threads=2), config(version=version, cpu_options=WHOLE))
    assert resized(admitted(node, pod("a", 4, GI)), pod("a", 4, GI)) == Resize("accepted")


@pytest.mark.parametrize(
    ("version", "seen"), [("v1.33.2", False), ("v1.34.11", False), ("v1.35.8", False), ("v1.36.4", True)]
)
def test_what_a_pod_has_as_a_whole_is_seen_with_its_gate(version: str, seen: bool) -> None:
    """Without InPlacePodLevelResourcesVerticalScaling the kubelet notices no difference, and so says nothing."""

    def whole(memory: int) -> Pod:
        amounts = sized({"cpu": 2, "memory": memory})
        return replace(pod_of("a", container()), pod_requests=amounts, pod_limits=amounts)

    node = admitted(Node.fresh(machine(), config(version=version)), whole(GI))
    assert resized(node, whole(2 * GI)) == Resize("accepted")
    assert resized(node, whole(1000 * GI)).outcome == ("Deferred" if seen else "accepted")


@pytest.mark.parametrize(("version", "outcome"), [("v1.36.4", "Deferred"), ("v1.37.1", "accepted")])
def test_until_1_36_whole_cores_are_asked_for_again(version: str, outcome: str) -> None:
    node = Node.fresh(machine(1, 8, threads=2), config(version=version, cpu_options=WHOLE))
    node = admitted(node, pod("a", 4, GI))
    answer = resized(node, pod("a", 4, 2 * GI))
    assert answer.outcome == outcome
    assert ("SMT Alignment Error" in answer.message) == (outcome == "Deferred")


@pytest.mark.parametrize(("version", "outcome"), [("v1.35.8", "Infeasible"), ("v1.36.4", "Deferred")])
def test_more_than_the_node_has(version: str, outcome: str) -> None:
    node = admitted(Node.fresh(machine(), config(version=version)), shared("a", GI))
    assert resized(node, shared("a", 1000 * GI)).outcome == outcome


@pytest.mark.parametrize(
    ("version", "outcome"), [("v1.33.2", "Infeasible"), ("v1.34.11", "Deferred"), ("v1.35.8", "Deferred")]
)
def test_memory_that_huge_pages_and_eviction_take_is_waited_for(version: str, outcome: str) -> None:
    kept = replace(config(version=version), eviction_hard=(("memory.available", "2Gi"),))
    node = admitted(Node.fresh(machine(hugepages=8 * GI), kept), shared("a", GI))
    assert resized(node, shared("a", 111 * GI)).outcome == outcome
    assert resized(node, shared("a", 127 * GI)).outcome == outcome
    assert resized(node, shared("a", 129 * GI)).outcome == "Infeasible"


@pytest.mark.parametrize("version", ["v1.34.11", "v1.35.8", "v1.36.4", "v1.37.1"])
def test_more_than_others_leave_is_put_off(version: str) -> None:
    node = admitted(Node.fresh(machine(), config(version=version)), shared("a", GI), shared("b", 100 * GI))
    assert resized(node, shared("a", 2 * GI)) == Resize("accepted")
    answer = resized(node, shared("a", 60 * GI))
    assert (answer.outcome, "Node didn't have enough resource: memory" in answer.message) == (
        "Deferred",
        True,
    )
