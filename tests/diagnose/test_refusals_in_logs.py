"""Refusals other than by the Topology Manager, in the lines in which the parts of the kubelet tell them."""

from __future__ import annotations

import json

import pytest

from numaware.diagnose.finding import Finding
from numaware.twin.state import memory as memory_file
from support.diagnosed import bundled, diagnosed
from support.kubelet_logs import header

SHORT = "not enough cpus available to satisfy request: requested=4, available=2"


def told(*lines: tuple[str, str, str]) -> list[Finding]:
    text = "\n".join(header(level, 0, source) + message for level, source, message in lines)
    return [one for one in diagnosed(log=text) if one.severity != "info"]


@pytest.mark.parametrize(
    "line",
    [
        ("E", "policy_static.go:350", f'"Unable to allocate CPUs" err="{SHORT}" pod="shop/web-0" containerName="app" numCPUs=8'),
        ("E", "policy_static.go:237", f"[cpumanager] unable to allocate 8 CPUs (pod: web-0_shop(u1), container: app, error: {SHORT})"),
        ("I", "topology_manager.go:241", f'"Pod Admit Result" Message="Allocate failed due to {SHORT}, which is unexpected" pod="shop/web-0"'),
        ("I", "predicate.go:167", f'"Failed to admit pod" pod="shop/web-0" message="Allocate failed due to {SHORT}, which is unexpected"'),
        (
            "I",
            "status_manager.go:874",
            '"Patch status for pod" pod="shop/web-0" podUID="u1" patch='
            + json.dumps(
                json.dumps(
                    {
                        "status": {
                            "phase": "Failed",
                            "reason": "UnexpectedAdmissionError",
                            "message": f"Pod was rejected: Allocate failed due to {SHORT}, which is unexpected",
                        }
                    }
                )
            ),
        ),
    ],
    ids=["structured", "bracketed", "result", "lifecycle", "status"],
)  # fmt: skip
def test_missing_cpus_are_told_with_their_numbers(line: tuple[str, str, str]) -> None:
    (one,) = told(line)
    assert (one.code, one.subject.name) == ("not-enough-exclusive-cpus", "web-0")
    assert (one.facts["requested"], one.facts["available"]) == (4, 2)


def test_a_full_node_is_told_as_such() -> None:
    reason = "Node didn't have enough resource: cpu, requested: 4000, used: 62000, capacity: 64000"
    for message in (
        f'"Predicate failed on Pod" pod="shop/web-0" err="{reason}"',
        f"Predicate failed on Pod: web-0_shop(u1), for reason: {reason}",
        f"Failed to admit pod web-0_shop(u1) - Pod {reason}, which is unexpected",
    ):
        (one,) = told(("I", "predicate.go:219", message))
        assert (one.code, one.subject.name, one.facts["capacity"]) == ("out-of-cpu", "web-0", "64")


@pytest.mark.parametrize(
    "line",
    [
        (
            "I",
            "topology_hints.go:73",
            (
                '"Unable to generate topology hints: requested number of devices unavailable" resourceName="nvidia.com/gpu" '
                'pod="shop/web-0" containerName="app" request=4 available=2'
            ),
        ),
        (
            "E",
            "topology_hints.go:70",
            (
                "[devicemanager] Unable to generate topology hints: requested number of devices unavailable for "
                "'nvidia.com/gpu': requested: 4, available: 2"
            ),
        ),
    ],
    ids=["structured", "bracketed"],
)
def test_devices_that_are_not_there_are_why_a_pod_is_refused(line: tuple[str, str, str]) -> None:
    event = '"Event occurred" object="shop/web-0" kind="Pod" type="Warning" reason="TopologyAffinityError" message="x"'
    begin = '"Topology Admit Handler" podUID="u1" podNamespace="shop" podName="web-0"'
    (one,) = told(("I", "topology_manager.go:215", begin), line, ("I", "event.go:307", event))
    assert (one.code, one.variant, one.facts["resource"]) == (
        "topology-affinity-error",
        "nothing-fits",
        "nvidia.com/gpu",
    )


def test_a_large_listing_is_read_without_its_lines() -> None:
    pods = [
        {
            "metadata": {"name": f"web-{number}", "namespace": "shop", "uid": f"u{number}"},
            "kind": "Pod",
            "spec": {"nodeName": "n1", "containers": [{"name": "app", "image": "x" * 400}]},
            "status": {
                "phase": "Failed" if number == 7 else "Running",
                "reason": "SMTAlignmentError" * (number == 7),
            },
        }
        for number in range(900)
    ]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": pods})
    assert len(text) > 1 << 18
    bundle = bundled(pods__json=text)
    assert bundle.files == [("pods.json", "pods")]
    (attempt,) = bundle.attempts
    assert (attempt.pod.name, attempt.node) == ("web-7", "n1")
    assert [piece.content.pod.name for piece in bundle.workloads] == ["web-7"]


def test_a_described_pod_without_events_is_told_by_its_head() -> None:
    text = (
        "Name:         web-0\nNamespace:    shop\nNode:         n1/10.0.0.1\nStatus:       Failed\n"
        "Reason:       OutOfcpu\nMessage:      Pod Node didn't have enough resource: cpu, requested: 2000, used: 3000, "
        "capacity: 4000\nEvents:       <none>\n"
    )
    (one,) = diagnosed(text=text)
    assert (one.code, one.subject.node, one.facts["requested"]) == ("out-of-cpu", "n1", "2")


def test_a_memory_state_of_another_policy_is_found_before_the_restart() -> None:
    config = (
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmemoryManagerPolicy: Static\n"
        "evictionHard: {memory.available: 100Mi}\nreservedMemory: [{numaNode: 0, limits: {memory: 100Mi}}]\n"
    )
    found = diagnosed(config=config, state=memory_file.encode("None", {}, {}))
    assert [(one.code, one.variant) for one in found if one.severity == "error"] == [
        ("memory-manager-state-mismatch", "policy")
    ]


def test_a_state_file_with_a_wrong_checksum_is_corrupt() -> None:
    (one,) = diagnosed(state='{"policyName":"static","defaultCpuSet":"0-3","checksum":7}')
    assert (one.code, one.facts["checksumStored"]) == ("cpu-manager-state-corrupt", 7)
    assert one.evidence[0].line == 1


def test_a_kubelet_that_keeps_failing_is_told_once_with_a_count() -> None:
    line = ("E", "run.go:72", '"command failed" err="failed to run Kubelet: unknown policy: \\"statik\\""')
    (one,) = told(line, line, line)
    assert (one.code, one.facts["count"], one.facts["given"]) == ("unknown-policy", 3, "statik")


@pytest.mark.parametrize(
    "text",
    [
        "  Warning  TopologyAffinityError  kubelet, n1  Resources cannot be allocated with Topology locality",
        "Warning TopologyAffinityError 5m12s (x3 over 6m) kubelet Resources cannot be allocated with Topology locality",
        "status:\n  message: 'Pod Resources cannot be allocated with Topology locality'\n  phase: Failed\n",
        '    "message": "Resources cannot be allocated with Topology locality",',
        "Resources cannot be allocated with Topology locality",
    ],
)
def test_a_refusal_is_known_in_whatever_was_pasted(text: str) -> None:
    assert [one.code for one in diagnosed(text=text)] == ["topology-affinity-error"]
