"""Pods with resources of their own: passed over, or given a set of their own that their containers share.

That the twin does all of it as the kubelet does is for the recordings to show (tests/conformance/test_twin_vectors.py).
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from numaware.machine import synthetic
from numaware.machine.cpuset import list_form
from numaware.machine.quantity import Quantity
from numaware.twin.config import KubeletConfig
from numaware.twin.errors import StartError
from numaware.twin.files import load_state, state_files
from numaware.twin.inventory import hardware_of
from numaware.twin.node import Node
from numaware.twin.node_codec import EncodedState
from numaware.twin.readmission import lost_at_restart
from numaware.workload.pod import NANO, Container, Pod, Resources
from support.twin_nodes import GPU, config, machine

OPEN = (("PodLevelResourceManagers", True),)


def amounts(cpu: str, memory: str) -> Resources:
    return tuple((name, Quantity.parse(text).nano) for name, text in (("cpu", cpu), ("memory", memory)))


def node(policy: str = "best-effort", scope: str = "pod", **more: object) -> Node:
    plain = KubeletConfig(
        version="v1.37.1",
        topology_policy=policy,
        topology_scope=scope,
        cpu_policy="static",
        reserved_cpus="0",
        feature_gates=OPEN,
    )
    return Node.fresh(hardware_of(synthetic.read("2s x 1n x 8c mem=16Gi"), []), replace(plain, **more))


def pod(name: str, whole: Resources, *containers: Container) -> Pod:
    return Pod(name, uid=name, containers=containers, pod_requests=whole, pod_limits=whole)


def exclusive(name: str, cpu: str) -> Container:
    asked = amounts(cpu, "1Gi")
    return Container(name, asked, asked)


BOTH = pod("both", amounts("4", "4Gi"), exclusive("own", "3"), Container("shared"))


def cpus(of: Node) -> dict[str, str]:
    return {name: list_form(mask) for name, mask in of.state.cpu.owned.get("both", {}).items()}


def test_with_the_gate_shut_the_managers_pass_over_such_a_pod() -> None:
    assert cpus(node(feature_gates=()).admit(BOTH).node) == {}


def test_containers_share_what_no_other_has_of_the_pods_own_cpus() -> None:
    verdict = node().admit(BOTH)
    assert cpus(verdict.node) == {"own": "1-3", "shared": "4"}
    assert '"podEntries":{"both":{"cpuSet":"1-4"}}' in state_files(verdict.node.kubelet, verdict.node.state)[
        "cpu_manager_state"
    ].replace("\\", "")


@pytest.mark.parametrize(("policy", "scope"), [("none", "pod"), ("restricted", "container")])
def test_without_scope_pod_only_whole_containers_get_cpus(policy: str, scope: str) -> None:
    assert cpus(node(policy, scope).admit(BOTH).node) == {"own": "1-3"}


@pytest.mark.parametrize(
    ("policy", "reason"),
    [("best-effort", "EmptyPodSharedPoolError"), ("restricted", "TopologyAffinityError")],
)
def test_a_pod_that_leaves_nothing_to_share_is_refused(policy: str, reason: str) -> None:
    full = pod("full", amounts("3", "4Gi"), exclusive("own", "3"), Container("shared"))
    assert node(policy).admit(full).reason == reason


@pytest.mark.parametrize(
    ("scope", "where"), [("pod", "under pod-scope"), ("container", "with a container-level")]
)
def test_a_pod_that_is_not_guaranteed_is_told_of_its_own_resources_too(scope: str, where: str) -> None:
    """It has nothing for itself but devices; those that no NUMA node has together are refused."""
    hardware = machine(devices={GPU: {"g0": (0,), "g1": (1,)}})
    opened = replace(config("single-numa-node", scope=scope), version="v1.37.1", feature_gates=OPEN)
    asked = Container("app", (), ((GPU, 2 * NANO),))
    verdict = Node.fresh(hardware, opened).admit(pod("b", amounts("1", "1Gi")[1:], asked))
    assert verdict.reason == "TopologyAffinityError"
    assert verdict.message.startswith("Pod Scope pod with pod-level resources failed admission")
    assert where in verdict.message


def test_devices_of_a_pod_as_a_whole_come_when_its_containers_start() -> None:
    """Guaranteed or not: at its admission the Device Manager is not asked for any."""
    hardware = machine(devices={GPU: {"g0": (0,)}})
    opened = replace(config("best-effort", scope="pod", memory=True), version="v1.37.1", feature_gates=OPEN)
    asked = Container("app", (), ((GPU, NANO),))
    fresh = Node.fresh(hardware, opened)
    for whole in (amounts("2", "1Gi"), amounts("1", "1Gi")[1:]):
        verdict = fresh.admit(pod("b", whole, asked))
        assert verdict.admitted
        assert verdict.node.state.device == fresh.state.device
        assert bool(verdict.node.state.memory.blocks) == (len(whole) == 2)


def test_what_a_pod_had_as_a_whole_comes_back_when_it_goes() -> None:
    fresh = node()
    assert fresh.admit(BOTH).node.release("both").state.cpu == fresh.state.cpu


def test_a_restart_refuses_who_shares_where_the_policy_insists() -> None:
    running = node("restricted").admit(BOTH).node
    assert [one.uid for one in lost_at_restart(running)] == ["both"]
    assert lost_at_restart(node("restricted", "container").admit(BOTH).node) == ()


def test_after_a_restart_with_other_cpus_the_next_one_fails() -> None:
    again = node().admit(BOTH).node.restart().node
    assert cpus(again) == {"own": "5-6,8", "shared": "7"}
    with pytest.raises(StartError, match="doesn't match with CPUs in state"):
        again.restart()


def test_state_files_and_what_agents_publish_keep_what_whole_pods_have() -> None:
    running = node().admit(BOTH).node
    kubelet, state = running.kubelet, running.state
    files = {name: text.encode() for name, text in state_files(kubelet, state).items()}
    assert load_state(kubelet, files).cpu.pods == state.cpu.pods == {"both": 0b11110}
    encoded = EncodedState.of(state)
    encoded.check(kubelet)
    assert encoded.state(state.pods).cpu == state.cpu
