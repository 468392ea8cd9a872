from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaware.kube.decoding import OwnerReference
from numaware.kube.topology import complete, nrt, publish
from numaware.kube.topology.fingerprint import fingerprint
from numaware.twin.node import Node
from numaware.workload.pod import NANO, Container
from support.twin_nodes import GI, GPU, admitted, config, container, machine, pod, pod_of

GPUS = {GPU: {"gpu-a": (0,), "gpu-b": (1,)}}


def node() -> Node:
    fresh = Node.fresh(machine(2, 8, devices=GPUS), config("restricted", memory=True))
    return admitted(fresh, pod("first", 2, GI, gpu=1), pod("second", 3), pod("idle"))


def attributes(document: dict[str, Any]) -> dict[str, str]:
    return {item["name"]: item["value"] for item in document["attributes"]}


def test_anybody_can_read_what_each_numa_node_has_left() -> None:
    document = publish.encode("n1", node(), 7, owner=OwnerReference("Node", "n1", "u", "v1"))
    assert document["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u", "controller": False}
    ]
    assert [*document["topologyPolicies"]] == ["RestrictedContainerLevel"]
    zone = document["zones"][0]
    assert (zone["name"], zone["type"]) == ("node-0", "Node")
    assert [resource["name"] for resource in zone["resources"]] == ["cpu", "memory", GPU]
    assert zone["resources"][0] == {"name": "cpu", "capacity": "8", "allocatable": "7", "available": "2"}
    assert {item["name"]: item["value"] for item in zone["attributes"]} == {
        "numaware.io/free-cpus": "6-7",
        "numaware.io/reserved-cpus": "0",
    }
    told = attributes(document)
    assert (told["topologyManagerPolicy"], told["topologyManagerScope"]) == ("restricted", "container")
    assert '"owned":{"first":{"app":6},' in told["numaware.io/state"]


@pytest.mark.parametrize(
    ("method", "names"),
    [("all", ["first", "idle", "second"]), ("with-exclusive-resources", ["first", "second"])],
)
def test_the_fingerprint_names_the_pods_that_its_method_says(method: Any, names: list[str]) -> None:
    told = attributes(publish.encode("n1", node(), 7, method=method))
    assert told["nodeTopologyPodsFingerprintMethod"] == method
    assert told["nodeTopologyPodsFingerprint"] == fingerprint(("default", name) for name in names)


def test_pods_that_only_started_with_something_of_their_own_are_not_exclusive() -> None:
    half = (("cpu", NANO // 2), ("memory", GI * NANO))
    first = container("init", {"cpu": 2, "memory": GI})
    starts = pod_of("starts", Container("app", half, half), init=(first,))
    fresh = Node.fresh(machine(2, 8), config())
    told = attributes(publish.encode("n1", admitted(fresh, starts), 7))
    assert told["nodeTopologyPodsFingerprint"] == fingerprint([])


def test_there_is_no_fingerprint_while_a_pod_has_no_name() -> None:
    nameless = msgspec.structs.replace(pod("x", 1), namespace="")
    told = attributes(publish.encode("n1", admitted(node(), nameless), 7))
    assert "nodeTopologyPodsFingerprint" not in told


def _without(name: str) -> Callable[[dict[str, str]], None]:
    return lambda told: told.__delitem__(name)


def _with(name: str, old: str, new: str) -> Callable[[dict[str, str]], None]:
    def change(told: dict[str, str]) -> None:
        assert old in told[name]
        told[name] = told[name].replace(old, new)

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_with(complete.FORMAT, "2", "1"), "this release reads format 2: run the agent of this release"),
        (_without(complete.STATE), "attribute numaware.io/state is missing"),
        (_with(complete.GENERATION, "7", "-7"), "numaware.io/generation is no number"),
        (_with(complete.STATE, '{"app":6}', '{"app":65542}'), "CPUs 16 are not of this machine"),
        (_with(complete.STATE, '{"app":6}', '{"app":-1}'), "are not of this machine"),
        (_with(complete.STATE, '{"app":6}', '{"app":128}'), "CPUs 7 are shared and owned at once"),
        (_with(complete.STATE, f'"{GPU}":1', f'"{GPU}":4'), f"a device of {GPU} is not of this machine"),
        (_with(complete.STATE, f'"{GPU}":1', f'"{GPU}":-1'), f"a device of {GPU} is not of this machine"),
        (_with(complete.STATE, f'"{GPU}":1', '"a.b/c":1'), "a device of a.b/c is not of this machine"),
        (_with(complete.STATE, '["first",', '["second",'), "a pod is listed twice"),
        (
            _with(complete.STATE, '[[1,"memory"', '[[9,"memory"'),
            "on NUMA nodes that this machine does not have",
        ),
        (
            _with(complete.STATE, '[[1,"memory"', '[[0,"memory"'),
            "on NUMA nodes that this machine does not have",
        ),
        (_with(complete.STATE, '"memory",1073741824', '"memory",-1'), "holds -1 bytes"),
        (_with(complete.STATE, '[[1,"memory"', '[[1,"gold"'), "holds gold, which no manager hands out"),
        (_with(complete.STATE, '"memory":[[', '"memory":["x",['), "Expected `array`"),
        (_with(complete.STATE, '"memory":[[2,', '"memory":[[-2,'), "belongs to no group"),
        (_with(complete.MACHINE, '"gpu-b"', '"gpu-a"'), "a device of vendor.example/gpu is listed twice"),
        (_with(complete.MACHINE, '"id":1', '"id":0'), "NUMA node 0 is listed twice"),
        (_with(complete.KUBELET_SETTINGS, '"Static"', '"Dynamic"'), "the kubelet would not start"),
        (_with(complete.KUBELET_SETTINGS, "{", "{{"), "JSON is malformed"),
    ],
)
def test_a_report_of_ours_that_makes_no_sense_is_one_problem(
    change: Callable[[dict[str, str]], None], problem: str
) -> None:
    document = publish.encode("n1", node(), 7)
    told = attributes(document)
    change(told)
    document["attributes"] = [{"name": name, "value": value} for name, value in told.items()]
    report = nrt.decode(msgspec.json.encode(document))
    assert problem in report.problem
    assert (report.publisher, report.complete) == ("numaware", None)


@given(st.data())
def test_a_damaged_report_of_ours_is_a_node_or_a_problem(data: st.DataObject) -> None:
    document = publish.encode("n1", node(), 7)
    told = attributes(document)
    name = data.draw(st.sampled_from([complete.STATE, complete.MACHINE, complete.KUBELET_SETTINGS]))
    start = data.draw(st.integers(0, len(told[name]) - 1))
    end = data.draw(st.integers(start, min(start + 6, len(told[name]))))
    told[name] = (
        told[name][:start] + data.draw(st.text('0123456789"[]{},:-eE', max_size=4)) + told[name][end:]
    )
    document["attributes"] = [{"name": key, "value": value} for key, value in told.items()]
    report = nrt.decode(msgspec.json.encode(document))
    assert bool(report.problem) != (report.complete is not None)
