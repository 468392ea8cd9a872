from __future__ import annotations

import json
from typing import Any

import pytest

from numaware.diagnose.finding import Finding
from numaware.diagnose.rules.lint import World, lint
from numaware.diagnose.rules.node_kinds import kinds_of
from numaware.diagnose.texts import finding_text
from numaware.machine import synthetic
from numaware.machine.quantity import Quantity
from numaware.twin.config import KubeletConfig, MemoryReservation
from numaware.twin.inventory import hardware_of, plugin_resource
from numaware.twin.node import Node
from numaware.workload import manifest

WHOLE = {"cpu": "2", "memory": "1Gi"}


def container(
    limits: dict[str, str], requests: dict[str, str] | None = None, name: str = "main"
) -> dict[str, Any]:
    resources = {"limits": limits, **({"requests": requests} if requests is not None else {})}
    return {"name": name, "resources": resources}


def pod(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"containers": list(containers), "initContainers": list(init), **spec},
    }


def found(document: dict[str, Any], world: World | None = None) -> list[Finding]:
    data = json.dumps(document, indent=1).encode()
    return lint(data, "p.json", world or World()).findings


def codes(document: dict[str, Any]) -> list[str]:
    return [one.code for one in found(document)]


def node(
    machine: str, policy: str, *, static_memory: bool = True, blind: bool = False, version: str = "v1.35.0"
) -> Node:
    made = synthetic.read(machine)
    plugins = [plugin_resource("nvidia.com/gpu", {"g0": (), "g1": ()})] if blind else None
    reserved = Quantity.parse("1Gi")
    return Node.fresh(
        hardware_of(made, plugins),
        KubeletConfig(
            version=version,
            topology_policy=policy,
            cpu_policy="static",
            reserved_cpus="0",
            memory_policy="Static" if static_memory else "None",
            system_reserved=(("memory", reserved),),
            reserved_memory=(MemoryReservation(0, (("memory", reserved),)),) if static_memory else (),
        ),
    )


def on(*nodes: Node) -> World:
    return World(cluster="c.yaml", nodes=kinds_of([(f"n{index}", one) for index, one in enumerate(nodes)]))


def test_a_guaranteed_pod_with_whole_cpus_has_no_findings() -> None:
    assert found(pod(container(WHOLE))) == []


def test_a_fraction_of_a_cpu_is_not_pinned_and_the_fix_rounds_up() -> None:
    (one,) = found(pod(container(WHOLE), container({"cpu": "1500m", "memory": "1Gi"}, name="side")))
    assert one.code == "fractional-cpu-not-pinned"
    assert (one.facts["container"], one.facts["cpu"], one.facts["whole"]) == ("side", "1500m", 2)
    assert "1500m" in one.evidence[0].text


@pytest.mark.parametrize(
    ("resources", "severity"),
    [
        (({"cpu": "2", "memory": "1Gi"}, {"cpu": "1"}), "warning"),
        (({"memory": "2Gi"}, {"memory": "1Gi"}), "warning"),
        (({"nvidia.com/gpu": "1"}, None), "warning"),
        (({"cpu": "4"}, None), "warning"),
        (({}, {"cpu": "100m"}), "info"),
        (({}, None), "info"),
    ],
)
def test_a_pod_that_is_not_guaranteed_is_a_warning_only_where_its_author_cares(
    resources: tuple[dict[str, str], dict[str, str] | None], severity: str
) -> None:
    (one,) = found(pod(container(*resources)))
    assert (one.code, one.severity) == ("not-guaranteed", severity)


def test_the_yaml_to_paste_makes_the_container_guaranteed() -> None:
    (one,) = found(pod(container({"cpu": "2", "memory": "1Gi"}, {"cpu": "1"})))
    text = "kind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n" + "\n".join(
        f"  {line}" for line in one.facts["yaml"].splitlines()
    )
    assert lint(text.encode(), "f").findings == []


def test_an_init_container_larger_than_the_app_is_told_with_both_amounts() -> None:
    (one,) = found(pod(container(WHOLE), init=(container({"cpu": "4", "memory": "1Gi"}, name="warm"),)))
    assert one.code == "init-larger-than-app"
    assert (one.facts["init"], one.facts["initAmount"], one.facts["appAmount"]) == ("warm", "4", "2")
    assert '"4"' in one.evidence[0].text


def test_an_init_container_is_compared_with_all_that_runs_after_it() -> None:
    side = {**container(WHOLE, name="side"), "restartPolicy": "Always"}
    init = container({"cpu": "4", "memory": "1Gi"}, name="warm")
    assert found(pod(container(WHOLE), init=(side, init))) == []
    assert found(pod(container(WHOLE), container(WHOLE, name="other"), init=(init,))) == []


def test_a_pod_with_resources_as_a_whole_is_not_pinned() -> None:
    assert codes(pod(container({}), resources={"limits": WHOLE, "requests": WHOLE})) == [
        "pod-level-resources-not-pinned"
    ]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"containers": [{"name": "a", "resources": {"limits": {"cpu": "x"}}}]}, "manifest-invalid"),
        ({"containers": [{"name": "a", "limits": {"cpu": "1"}}]}, "ignored-field"),
        ({"containers": [container({"cpu": "1", "memory": "500m"})]}, "memory-in-fractions-of-a-byte"),
    ],
)
def test_what_the_api_server_refuses_drops_or_rounds_is_found(change: dict[str, Any], code: str) -> None:
    document = pod(container(WHOLE))
    document["spec"].update(change)
    assert code in codes(document)


def test_what_a_template_fills_in_later_is_not_judged() -> None:
    document = pod(container({"cpu": "${CPUS}", "memory": "1Gi"}))
    assert codes(document) == []


@pytest.mark.parametrize("name", ["examplePod", "a_b", "x" * 254, "-a"])
def test_a_name_that_kubernetes_does_not_take_is_refused(name: str) -> None:
    document = pod(container(WHOLE))
    document["metadata"]["name"] = name
    assert codes(document) == ["manifest-invalid"]


def test_a_template_is_told_by_its_owner_and_group() -> None:
    task = {
        "name": "worker",
        "template": {"spec": {"containers": [container({"cpu": "1500m", "memory": "1Gi"})]}},
    }
    document = {
        "kind": "Job",
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "metadata": {"name": "j"},
        "spec": {"tasks": [task]},
    }
    (one,) = found(document)
    assert (one.subject.kind, one.subject.name) == ("Job", "j/worker")


# On the nodes that there are


def test_a_pod_that_some_kind_of_node_admits_is_no_finding() -> None:
    small, large = node("2x4", "single-numa-node"), node("2x16", "single-numa-node")
    assert found(pod(container({"cpu": "8", "memory": "1Gi"})), on(small, large)) == []


def test_a_pod_that_no_kind_of_node_admits_never_fits_and_the_remedy_does() -> None:
    nodes = (node("2x4", "single-numa-node"), node("2x6", "single-numa-node"))
    (one,) = found(pod(container({"cpu": "8", "memory": "1Gi"})), on(*nodes))
    assert (one.code, one.severity) == ("never-fits", "error")
    assert [kind["node"] for kind in one.facts["kinds"]] == ["n0", "n1"]
    assert finding_text(one).fix[0].startswith("ask for 6 CPUs instead of 8")
    assert found(pod(container({"cpu": "6", "memory": "1Gi"})), on(*nodes)) == []


def test_a_pod_larger_than_the_machine_never_fits_though_no_manager_counts_it() -> None:
    (one, *_) = found(pod(container({"cpu": "64500m", "memory": "1Gi"})), on(node("2x4", "none")))
    assert one.code == "never-fits"
    assert "offers" in finding_text(one).cause


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("single-numa-node", [("never-fits", "error"), ("memory-needs-two-nodes", "error")]),
        ("restricted", [("never-fits", "error"), ("memory-needs-two-nodes", "error")]),
        ("best-effort", []),
    ],
)
def test_memory_for_two_nodes_is_told_where_the_policy_minds(
    policy: str, expected: list[tuple[str, str]]
) -> None:
    world = on(node("2x8 mem=16Gi", policy))
    seen = found(pod(container({"cpu": "2", "memory": "20Gi"})), world)
    assert [(one.code, one.severity) for one in seen] == expected


def test_an_old_kubelet_spread_the_memory_instead_of_refusing() -> None:
    world = on(node("2x8 mem=16Gi", "restricted", version="v1.23.0"))
    (one,) = found(pod(container({"cpu": "2", "memory": "20Gi"})), world)
    assert (one.code, one.variant, one.severity) == ("memory-needs-two-nodes", "spans", "warning")


def test_memory_for_two_nodes_says_what_one_node_can_give() -> None:
    world = on(node("2x8 mem=16Gi", "single-numa-node"))
    one = found(pod(container({"cpu": "2", "memory": "20Gi"})), world)[1]
    assert one.facts["requested"] == 20 << 30
    assert one.facts["memoryNodes"] == [0, 1]
    assert '"20Gi"' in one.evidence[0].text
    most = one.facts["most"]
    assert found(pod(container({"cpu": "2", "memory": str(most)})), world) == []


def test_a_plugin_that_names_no_numa_node_is_told() -> None:
    seen = found(pod(container({**WHOLE, "nvidia.com/gpu": "1"})), on(node("2x8", "restricted", blind=True)))
    assert [one.code for one in seen] == ["devices-without-topology"]
    assert (
        found(pod(container({**WHOLE, "nvidia.com/gpu": "1"})), on(node("2x8 +gpu@0,1", "restricted"))) == []
    )


def test_nodes_of_one_kind_are_tried_once() -> None:
    machine = node("2x4", "restricted")
    (kind,) = kinds_of([("a", machine), ("b", machine)])
    assert (kind.name, kind.number) == ("a", 2)


def test_the_pods_of_these_tests_are_what_they_seem() -> None:
    (workload,) = manifest.read(json.dumps(pod(container(WHOLE))).encode(), "p").workloads
    assert workload.pod.containers[0].name == "main"
