"""What a restart of the kubelet would cost a node, as metrics."""

from __future__ import annotations

from numaware.machine import synthetic
from numaware.node.exporter.restart import RestartMetrics
from numaware.twin.config import KubeletConfig
from numaware.twin.inventory import hardware_of
from numaware.twin.node import Node
from numaware.workload.pod import NANO, Container, Pod

GI = 1 << 30


def pod(name: str, cpus: int) -> Pod:
    amounts = (("cpu", cpus * NANO), ("memory", GI * NANO))
    return Pod(name, uid=name, containers=(Container("c", amounts, amounts),))


def node(*pods: Pod, **options: str) -> Node:
    names = {name.replace("_", "-"): value for name, value in options.items()}
    config = KubeletConfig(
        version="v1.35.8", cpu_policy="static", reserved_cpus="0,8", cpu_options=tuple(sorted(names.items()))
    )
    made = Node.fresh(hardware_of(synthetic.read("1s x 1n x 8c x 2t mem=64Gi"), []), config)
    for one in pods:
        verdict = made.admit(one)
        assert verdict.admitted
        made = verdict.node
    return made


def told(of: Node | None) -> dict[str, dict[tuple[str, ...], float]]:
    return {one.name: dict(one.samples) for one in RestartMetrics(lambda: of).families()}


def test_pods_that_would_be_lost_are_counted_by_reason() -> None:
    assert told(node(pod("small", 2), pod("large", 10), full_pcpus_only="true")) == {
        "numa_node_pods_lost_at_restart": {("SMTAlignmentError",): 1},
        "numa_node_restart_stops_kubelet": {(): 0.0},
    }


def test_a_safe_node_says_so_and_an_unknown_one_nothing() -> None:
    assert told(node(pod("small", 2), pod("large", 4))) == {
        "numa_node_pods_lost_at_restart": {},
        "numa_node_restart_stops_kubelet": {(): 0.0},
    }
    assert told(None) == {}


def test_a_kubelet_that_would_stay_down_is_told_as_such() -> None:
    full = node(pod("all", 14), strict_cpu_reservation="true")
    assert told(full)["numa_node_restart_stops_kubelet"] == {(): 1.0}


def test_it_is_worked_out_once_for_each_node_that_was_seen() -> None:
    seen = [node(pod("small", 2))]
    metrics = RestartMetrics(lambda: seen[-1])
    first = list(metrics.families())
    assert all(one is other for one, other in zip(first, metrics.families(), strict=True))
    seen.append(node(pod("small", 2), pod("large", 10), full_pcpus_only="true"))
    assert next(one.samples for one in metrics.families()) == [(("SMTAlignmentError",), 1)]
