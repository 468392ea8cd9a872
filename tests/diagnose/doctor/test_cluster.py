from __future__ import annotations

import json
from typing import Any

import pytest

from numaware.diagnose.doctor.check import Check
from numaware.diagnose.doctor.cluster import (
    ClusterNode,
    ClusterView,
    NodeTopology,
    examine_cluster,
    pool_of,
)
from numaware.diagnose.doctor.component import Component
from numaware.diagnose.doctor.volcano import OPENFUYAO, VOLCANO, component_of
from numaware.diagnose.render import checkup
from numaware.diagnose.texts import Lang
from numaware.machine.drawing.lines import line_width
from support.choices import LANGUAGES

NAMES = ("a", "b", "c")
CONFIG = json.dumps({"kubeletconfig": {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}}).encode()


def good(**changes: Any) -> ClusterView:
    view = ClusterView(
        name="https://c",
        version="v1.35.1",
        nodes=tuple(ClusterNode(name, "gpu", True, "v1.35.1") for name in NAMES),
        topologies=tuple(NodeTopology(name, "numaware", "restricted", "pod", True) for name in NAMES),
        components=(
            Component("numaware-agent", 3, 3, ("0.1.0",), frozenset(NAMES)),
            Component("numaware-scheduler", 2, 2, ("0.1.0",)),
            Component("k8s-device-plugin", 3, 3, ("v0.17.0",)),
        ),
        configs=tuple((name, CONFIG) for name in NAMES),
        own_version="0.1.0",
    )
    return view._replace(**changes)


def codes(view: ClusterView) -> list[str]:
    return [one.code for check in examine_cluster(view) for one in check.findings]


def of(view: ClusterView, name: str) -> Check:
    (check,) = (check for check in examine_cluster(view) if check.name == name)
    return check


def test_a_cluster_in_order_is_all_ok() -> None:
    assert {check.status for check in examine_cluster(good())} == {"ok"}
    assert codes(good()) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"components": ()}, ["component-missing"]),
        (
            {"components": (Component("numaware-agent", 2, 2, ("0.1.0",), frozenset("ab")),)},
            ["component-missing"],
        ),
        (
            {"components": (Component("numaware-agent", 3, 1, ("0.1.0",), frozenset(NAMES)),)},
            ["component-not-ready"],
        ),
        (
            {"components": (Component("numaware-agent", 3, 3, ("0.0.9", "x"), frozenset(NAMES)),)},
            ["component-old"],
        ),
        (
            {"nodes": tuple(ClusterNode(name, "", name != "b", "v1.35.1") for name in NAMES)},
            ["nodes-not-ready"],
        ),
        ({"version": "v1.39.0"}, ["component-old"]),
        ({"topologies": None, "configs": None}, ["component-missing"]),
        ({"topologies": ()}, ["nodes-without-topology"]),
        (
            {
                "topologies": tuple(
                    NodeTopology(name, "rte", "restricted", "pod", name != "b") for name in NAMES
                )
            },
            ["topology-stale"],
        ),
        (
            {
                "topologies": tuple(
                    NodeTopology(name, "rte", "restricted" if name == "a" else "none", "pod", True)
                    for name in NAMES
                )
            },
            ["policies-differ"],
        ),
        (
            {
                "topologies": tuple(
                    NodeTopology(name, "rte", "", "", None, "zones add up to nothing") for name in NAMES
                )
            },
            ["topology-unusable"] * 3,
        ),
    ],
)
def test_each_trouble_is_found(changes: dict[str, Any], expected: list[str]) -> None:
    assert codes(good(**changes)) == expected


def test_a_topology_by_others_makes_our_agent_optional() -> None:
    told = tuple(NodeTopology(name, "nfd", "none", "container", None) for name in NAMES)
    view = good(components=(), topologies=told)
    assert of(view, "agent").status == "unknown"
    assert of(view, "topology-fresh").status == "unknown"
    assert codes(view) == []


def test_a_configuration_that_several_kubelets_share_is_told_once() -> None:
    bad = json.dumps(
        {
            "kubeletconfig": {
                "topologyManagerPolicy": "single-numa-node",
                "cpuManagerPolicy": "static",
                "reservedSystemCPUs": "0",
                "cpuManagerPolicyOptions": {"distribute-cpus-across-numa": "true"},
            }
        }
    ).encode()
    (one,) = of(good(configs=tuple((name, bad) for name in NAMES)), "kubelet-configs").findings
    assert (one.code, one.facts["nodes"]) == ("incompatible-policy-options", list(NAMES))


def test_objects_of_nodes_that_are_gone_are_no_trouble() -> None:
    view = good(topologies=(*(good().topologies or ()), NodeTopology("old", "numaware", "none", "pod", True)))
    assert of(view, "topology-fresh").status == "ok"
    assert codes(view) == ["topology-stale"]


@pytest.mark.parametrize(
    ("labels", "pool"),
    [
        ({"cloud.google.com/gke-nodepool": "gpu"}, "gpu"),
        ({"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/infra": ""}, "infra,worker"),
        ({"x": "y"}, ""),
    ],
)
def test_a_pool_is_what_the_provider_calls_it(labels: dict[str, str], pool: str) -> None:
    assert pool_of(tuple(sorted(labels.items()))) == pool


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_screen_tells_all_of_it_in_every_language(lang: Lang) -> None:
    view = good(components=(), topologies=(), version="v1.39.0", configs=None)
    checks = examine_cluster(view)
    assert all(line_width(line) <= 90 for line in checkup.page("c", checks, 90, lang))
    assert len(json.loads(checkup.as_json("c", checks, lang))["checks"]) == len(checks)


# What openFuyao's guide asks to look at


def parts(*names: str, ready: int = 1) -> tuple[Component, ...]:
    return (*good().components, *(Component(name, 1, ready, ("v1",)) for name in names))


def test_of_volcano_nothing_is_said_where_there_is_none() -> None:
    assert "volcano" not in {check.name for check in examine_cluster(good())}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"components": parts(*VOLCANO), "numa_aware": "on"}, []),
        ({"components": parts(*VOLCANO, *OPENFUYAO), "numa_aware": "on"}, []),
        ({"components": parts(*VOLCANO), "numa_aware": "off"}, ["numa-aware-off"]),
        ({"components": parts(*VOLCANO), "numa_aware": "unknown"}, []),
        ({"components": parts("volcano-scheduler"), "numa_aware": "on"}, ["component-missing"]),
        ({"numa_aware": "off"}, ["component-missing", "numa-aware-off"]),
        ({"components": parts(*VOLCANO, "numaadj"), "numa_aware": "on"}, ["component-missing"]),
        ({"components": parts(*VOLCANO, ready=0), "numa_aware": "on"}, ["component-not-ready"] * 3),
    ],
)
def test_missing_parts_of_volcano_and_a_plugin_that_is_off_are_found(
    changes: dict[str, Any], expected: list[str]
) -> None:
    assert [one.code for one in of(good(**changes), "volcano").findings] == expected


def test_parts_are_known_by_the_names_that_their_pods_have_in_the_guide() -> None:
    listed = (
        "volcano-admission-6c9d-x volcano-admission-init-x volcano-controllers-7-x volcano-schedulers-7-x "
        "volcano-exporter-daemonset-x volcano-config-website-7-x volcano-config-7-x numa-exporter-x other-x"
    )
    assert [component_of("volcano-system", name) for name in listed.split()] == [
        *("volcano-admission", "", "volcano-controllers", "volcano-scheduler", "volcano-exporter"),
        *("volcano-config-website", "volcano-config", "numa-exporter", ""),
    ]
    assert component_of("default", "numaadj-x") == "numaadj"
    assert component_of("default", "volcano-scheduler-x") == ""


@pytest.mark.parametrize(
    ("runtime", "old"),
    [
        ("containerd://1.6.33", True),
        ("containerd://1.7.0-rc.1", False),
        ("containerd://v2.0.2", False),
        ("cri-o://1.25.4", True),
        ("cri-o://1.31.0", False),
        ("docker://20.10", False),
        ("containerd://?", False),
        ("", False),
    ],
)
def test_a_runtime_that_is_too_old_for_nri_is_found_on_the_node_object(runtime: str, old: bool) -> None:
    nodes = (ClusterNode("a", "", True, "v1.35.1", runtime), *good().nodes[1:])
    assert codes(good(nodes=nodes)) == ["runtime-without-nri"] * old
    # It matters to who needs it.
    with_numaadj = good(nodes=nodes, components=parts(*VOLCANO, *OPENFUYAO), numa_aware="on")
    assert [check.status for check in examine_cluster(with_numaadj) if check.name == "runtimes"] == (
        ["warning" if old else "ok"] if runtime else []
    )
