"""The explanation as a value and as the documented JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from numaware.diagnose.explain.explanation import explain, to_builtins
from numaware.twin.node import Node
from support.twin_nodes import GI, GPU, HUGE, admitted, config, container, machine, pod, pod_of

HARDWARE = machine(hugepages=4 * GI, devices={GPU: {"g0": (0,), "g1": (1,), "loose": ()}})
NODE = Node.fresh(HARDWARE, config("restricted", memory=True))


def test_an_admitted_pod_has_its_containers_and_nothing_to_explain() -> None:
    found = to_builtins(explain("n1", NODE, pod("new", 3, 2 * GI, gpu=1, huge=GI)))
    assert found == {
        "pod": {"namespace": "default", "name": "new"},
        "node": "n1",
        "admitted": True,
        "kubelet": {"version": "v1.35.0", "modelledAs": None},
        "admittedWhenEmpty": True,
        "reason": "",
        "message": "",
        "containers": [
            {
                "name": "app",
                "cpuset": "1-3",
                "memory": [
                    {"numaAffinity": [0], "type": HUGE, "size": GI},
                    {"numaAffinity": [0], "type": "memory", "size": 2 * GI},
                ],
                "devices": {GPU: {"0": 1}},
                "hint": {"mask": [0], "preferred": True},
            }
        ],
        "why": [],
        "changes": [],
        "dra": [],
        "warnings": [],
    }


def test_a_refused_pod_has_a_reason_in_the_kubelets_words_and_in_ours() -> None:
    node = admitted(NODE, pod("a", 7))
    found = to_builtins(explain("n1", node, pod("new", 9)))
    assert (found["admitted"], found["admittedWhenEmpty"]) == (False, False)
    assert found["reason"] == "TopologyAffinityError"
    assert found["message"] == "Resources cannot be allocated with Topology locality"
    assert [cause["resource"] for cause in found["why"]] == ["cpu", "memory"]
    assert all(cause.keys() == {"resource", "wants", "blockedBy", "text"} for cause in found["why"])
    assert all(change.keys() == {"kind", "text", "patch"} for change in found["changes"])
    assert found["containers"][0]["cpuset"] is None
    assert json.loads(json.dumps(found)) == found


def test_a_node_that_is_only_too_full_is_told_from_one_that_never_fits() -> None:
    full = admitted(NODE, pod("a", 7), pod("b", 8))
    assert explain("n1", full, pod("new", 2)).admitted_when_empty
    assert not explain("n1", full, pod("new", 17)).admitted_when_empty


def test_what_earlier_containers_got_before_the_refusal_is_shown() -> None:
    asked = pod_of(
        "new", container("first", {"cpu": 2, "memory": GI}), container("second", {"cpu": 99, "memory": GI})
    )
    first, second = to_builtins(explain("n1", NODE, asked))["containers"]
    assert (first["cpuset"], second["cpuset"]) == ("1-2", None)
    assert second["hint"] == {"mask": [0], "preferred": False}


def test_a_container_that_was_never_reached_has_no_hint() -> None:
    asked = pod_of(
        "new", container("first", {"cpu": 99, "memory": GI}), container("second", {"cpu": 1, "memory": GI})
    )
    assert to_builtins(explain("n1", NODE, asked))["containers"][1]["hint"] is None


def test_devices_without_a_numa_node_are_under_minus_one() -> None:
    node = Node.fresh(HARDWARE, config())
    found = to_builtins(explain("n1", node, pod("new", gpu=3)))
    assert found["containers"][0]["devices"] == {GPU: {"-1": 1, "0": 1, "1": 1}}


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        ("spec", ["spec"]),
        ("spec.template.spec", ["spec", "template", "spec"]),
        ("spec.jobTemplate.spec.template.spec", ["spec", "jobTemplate", "spec", "template", "spec"]),
        # A strategic merge cannot reach into a list of a foreign kind; the patch is one of a pod.
        ("spec.tasks[0].template.spec", ["spec"]),
    ],
)
def test_a_request_patch_is_one_of_the_users_document(path: str, keys: list[str]) -> None:
    changes = to_builtins(explain("n1", NODE, pod("new", 17)), path)["changes"]
    (patch,) = [change["patch"] for change in changes if change["kind"] == "request"]
    found: Any = patch
    for key in keys:
        (only,) = found
        assert only == key
        found = found[key]
    assert found.keys() == {"containers"}


def test_explaining_changes_nothing_and_says_the_same_twice() -> None:
    node = admitted(NODE, pod("a", 7))
    before = node.state
    first, second = (json.dumps(to_builtins(explain("n1", node, pod("new", 9)))) for _ in range(2))
    assert first == second
    assert node.state == before
