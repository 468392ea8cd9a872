"""Refusals that people reported to Kubernetes, asked of the twin of the release they ran, and why each happened.

Numbers are those of the reports; where a report leaves one out, it is chosen so that the story stays the same.
"""

from __future__ import annotations

import pytest

from numaware.diagnose.explain.explanation import Explanation, explain
from numaware.diagnose.texts import say
from numaware.twin.config import KubeletConfig, MemoryReservation
from numaware.twin.hardware import CpuPlace, Hardware, NumaHardware
from numaware.twin.node import Node
from numaware.workload.pod import NANO, Container, Pod
from support.in_words import CauseInWords, causes_of, changes_of, warnings_of
from support.twin_nodes import GI, admitted, config, container, cpus_of, machine, pod, pod_of, quantities


def only(explanation: Explanation, resource: str) -> CauseInWords:
    (cause,) = [cause for cause in causes_of(explanation) if cause.resource == resource]
    return cause


def floating(uid: str, memory: int) -> Pod:
    amounts = (("cpu", 200 * NANO // 1000), ("memory", memory * NANO))
    return pod_of(uid, Container("app", amounts, amounts))


@pytest.mark.parametrize("version", ["v1.18.0", "v1.27.3", "v1.35.0"])
def test_kubernetes_84597_restricted_refuses_although_cpus_are_free(version: str) -> None:
    """Three nodes of 6 CPUs, a few left on each: the request is sized by the machine, not by what is free."""
    node = Node.fresh(machine(3, 6), config("restricted", version=version))
    node = admitted(node, pod("a", 3), pod("b", 4), pod("c", 3))
    found = explain("my-centos", node, pod("new", 4))
    assert found.reason == "TopologyAffinityError"
    assert found.admitted_when_empty
    cause = only(found, "cpu")
    assert cause.text.startswith("4 CPUs belong on 1 NUMA node by the size of the machine")
    assert (
        "NUMA 0 has 2 free to pin (2 short), NUMA 1 has 2 free to pin (2 short), NUMA 2 has 3 free to pin (1 short)"
        in cause.text
    )
    assert "set topologyManagerPolicy to best-effort (now restricted)" in changes_of(found)


def hyperthreads() -> Hardware:
    """64 CPUs as lscpu prints them: node 0 has 0-15 and 32-47, node 1 has 16-31 and 48-63; 125 GiB each."""
    return Hardware(
        tuple(
            NumaHardware(
                number,
                tuple(
                    CpuPlace(cpu, cpu % 32, number)
                    for cpu in (
                        *range(16 * number, 16 * number + 16),
                        *range(16 * number + 32, 16 * number + 48),
                    )
                ),
                125 * GI,
                (),
                (10, 20) if number == 0 else (20, 10),
            )
            for number in range(2)
        )
    )


@pytest.mark.parametrize("version", ["v1.27.3", "v1.35.0"])
def test_kubernetes_123816_an_init_container_pins_the_pod_to_a_full_node(version: str) -> None:
    """The first pod fills node 0 but for a few CPUs; the second's init container takes one of them and cannot leave."""

    def two_step(uid: str) -> Pod:
        return pod_of(
            uid,
            container("centos", {"cpu": 26, "memory": 32 * GI}),
            init=(container("init-container", {"cpu": 1, "memory": GI}),),
        )

    node = admitted(
        Node.fresh(hyperthreads(), config("single-numa-node", version=version)), two_step("first")
    )
    found = explain("n1", node, two_step("second"))
    assert found.reason == "TopologyAffinityError"
    assert [bool(placed.cpus) for placed in found.placements] == [True, False]
    cause = only(found, "cpu")
    assert "an init container of this pod had its own on NUMA 0, so this one must go there too" in cause.text
    assert "NUMA 1 has 32 free to pin" in cause.text
    assert "ask for 26 CPUs instead of 1 in init container init-container" in changes_of(found)


@pytest.mark.parametrize("version", ["v1.22.9", "v1.35.0"])
def test_kubernetes_110306_a_small_init_container_dooms_the_pod_on_an_empty_node(version: str) -> None:
    """3 of 16 CPUs of node 0 are reserved: the init container fits there, the 14 CPUs after it never will."""
    node = Node.fresh(machine(2, 16), config("single-numa-node", reserved="3", version=version))
    asked = pod_of(
        "nginx",
        container("container-1", {"cpu": 14, "memory": GI}),
        init=(container("init-container-1", {"cpu": 1, "memory": GI}),),
    )
    found = explain("n1", node, asked)
    assert found.reason == "TopologyAffinityError"
    assert not found.admitted_when_empty
    assert "NUMA 0 has 13 free to pin (1 short), NUMA 1 has 16 free to pin" in only(found, "cpu").text
    assert changes_of(found)[:2] == [
        "ask for 13 CPUs instead of 14 in container container-1",
        "ask for 14 CPUs instead of 1 in init container init-container-1",
    ]


def reported_memory() -> Hardware:
    """Two nodes of 92 GiB with 10 huge pages of 1 GiB each, to the byte."""
    totals = (99_759_243_264, 99_283_886_080)
    return Hardware(
        tuple(
            NumaHardware(
                number,
                tuple(CpuPlace(cpu, cpu, number) for cpu in range(16 * number, 16 * number + 16)),
                total,
                (("hugepages-1Gi", 10 * GI), ("hugepages-2Mi", 0)),
                (10, 20) if number == 0 else (20, 10),
            )
            for number, total in enumerate(totals)
        )
    )


def reported_memory_config(version: str) -> KubeletConfig:
    kept = (10_538_188_800, 1_101_004_800)
    return KubeletConfig(
        version=version,
        topology_policy="restricted",
        cpu_policy="static",
        memory_policy="Static",
        kube_reserved=quantities({"cpu": "2", "memory": str(sum(kept))}),
        reserved_memory=tuple(
            MemoryReservation(number, quantities({"memory": str(size)})) for number, size in enumerate(kept)
        ),
    )


@pytest.mark.parametrize("version", ["v1.29.2", "v1.31.2", "v1.35.0"])
def test_kubernetes_128669_memory_over_two_nodes_locks_out_small_pods(version: str) -> None:
    """85 GiB need both nodes, which are one group from then on: what is left of them serves no single-node request."""
    node = admitted(Node.fresh(reported_memory(), reported_memory_config(version)), floating("big", 85 * GI))
    table = [memory.free[-1] for memory in node.state.memory.nodes]
    assert sum(table) == 78_483_636_224 + 87_445_463_040 - 85 * GI
    found = explain("controller-0", node, pod("small", 1, GI))
    assert found.reason == "TopologyAffinityError"
    cause = only(found, "memory")
    assert "NUMA 0+1 are one group and serve only requests for all of it" in cause.text
    assert cause.blocked_by[0] == "default/big (app) holds 85 GiB of memory on NUMA 0+1"
    assert "remove pod default/big" in changes_of(found)


@pytest.mark.parametrize("version", ["v1.31.2", "v1.35.0"])
def test_kubernetes_128708_a_small_pod_locks_out_memory_over_two_nodes(version: str) -> None:
    """The same in the other order: 256 MiB on one node, and 9 GiB on nodes of 8 GiB can no longer be grouped."""
    kept = quantities({"memory": "1Gi"})
    settings = KubeletConfig(
        version=version,
        topology_policy="restricted",
        cpu_policy="static",
        memory_policy="Static",
        reserved_cpus="0,4",
        kube_reserved=kept,
        system_reserved=kept,
        reserved_memory=(MemoryReservation(0, kept), MemoryReservation(1, kept)),
    )
    node = Node.fresh(machine(2, 4, memory=9 * GI), settings)
    node = admitted(node, pod("kube-mgrr-1", 1, 256 << 20))
    found = explain("minikube", node, pod("kube-mgrr-2", 1, 9 * GI))
    assert found.reason == "UnexpectedAdmissionError"
    assert "failed to find NUMA nodes to extend the current topology hint" in say(found.message)
    assert only(found, "memory").text.endswith("requests for one node already use NUMA 0, so no group can.")


@pytest.mark.parametrize("policy", ["restricted", "single-numa-node"])
@pytest.mark.parametrize("version", ["v1.18.0", "v1.35.0"])
def test_kubernetes_83775_pods_without_requests_are_admitted(policy: str, version: str) -> None:
    """v1.16 refused them under single-numa-node; every release the twin knows has the fix."""
    node = Node.fresh(machine(), config(policy, version=version))
    found = explain("n1", node, pod_of("kube-dns", Container("dns"), Container("sidecar")))
    assert found.admitted
    assert warnings_of(found)[0].startswith("no container gets CPUs of its own: the pod is BestEffort")


@pytest.mark.parametrize("version", ["v1.18.0", "v1.35.0"])
def test_kubernetes_102324_one_container_without_limits_unpins_them_all(version: str) -> None:
    """The second container has no limits, so the pod is Burstable and the first one's 4 CPUs are shared ones."""
    node = Node.fresh(machine(), config("single-numa-node", version=version))
    main = container("myappnuma", {"cpu": 4, "memory": 2_500_000_000})
    pinned = explain("n1", node, pod_of("yaml1", main, container("myapp2", {"cpu": 1, "memory": GI})))
    assert cpus_of(pinned.after, "yaml1", "myappnuma") == "1-4"
    found = explain("n1", node, pod_of("yaml2", main, Container("myapp2")))
    assert found.admitted
    assert [placed.cpus for placed in found.placements] == ["", ""]
    assert warnings_of(found) == (
        (
            "no container gets CPUs of its own: the pod is Burstable, and only Guaranteed pods do "
            "(container myapp2 has no cpu limit)"
        ),
    )


def test_node_feature_discovery_816_memory_that_no_hint_can_be_extended_to() -> None:
    """15 GB belong on one node of 16 GB; 2 GB of each are in use by pods of one node, so there is no second best."""
    node = Node.fresh(machine(memory=16_000_000_000), config("best-effort", memory=True, version="v1.23.5"))
    node = admitted(node, pod("a", 4, 2_000_000_000), pod("b", 4, 2_000_000_000))
    found = explain("n1", node, pod("new", 1, 15_000_000_000))
    assert found.reason == "UnexpectedAdmissionError"
    assert "failed to find NUMA nodes to extend the current topology hint" in say(found.message)
    assert "requests for one node already use NUMA 0+1, so no group can" in only(found, "memory").text
