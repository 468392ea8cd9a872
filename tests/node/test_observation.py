from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from numaware.kube.pods import LivePod
from numaware.kube.pods import decode as decode_pod
from numaware.machine import synthetic
from numaware.machine.cpuset import CpuSet
from numaware.machine.quantity import Quantity
from numaware.node.observation import Facts, ObservationError, observe
from numaware.node.podresources import Allocatable, ContainerHoldings, Devices, Memory, PodHoldings
from numaware.twin.config import KubeletConfig, MemoryReservation
from numaware.twin.files import state_files
from numaware.twin.hardware import PluginResource
from numaware.twin.inventory import hardware_of, plugin_resource
from numaware.twin.node import Node
from support.twin_nodes import state_key

GPU = "nvidia.com/gpu"
MACHINE = synthetic.read("2s x 1n x 4c x 2t mem=8Gi")
RESERVED = Quantity.parse("1Gi")
CONFIG = KubeletConfig(
    topology_policy="single-numa-node",
    cpu_policy="static",
    memory_policy="Static",
    reserved_cpus="0",
    system_reserved=(("memory", RESERVED),),
    reserved_memory=(MemoryReservation(0, (("memory", RESERVED),)),),
)
GPUS = plugin_resource(GPU, {"gpu-0": (0,), "gpu-1": (1,), "gpu-2": (1,)})


def live(name: str, cpus: int, gpus: int = 0, uid: str = "", phase: str = "Running") -> LivePod:
    amounts = {"cpu": str(cpus), "memory": "1Gi", **({GPU: str(gpus)} if gpus else {})}
    body: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "work", "uid": uid or f"uid-{name}"},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}],
        },
        "status": {"phase": phase},
    }
    return decode_pod(msgspec.json.encode(body))


def fresh(resources: tuple[PluginResource, ...] = (GPUS,)) -> Node:
    return Node.fresh(hardware_of(MACHINE, resources), CONFIG)


def facts(node: Node, *pods: LivePod, listed: tuple[LivePod, ...] | None = None) -> Facts:
    """What is read on a node in this state: files, and what its kubelet answers for the pods `listed`."""
    files = {name: text.encode() for name, text in state_files(node.kubelet, node.state).items()}
    return Facts(
        MACHINE,
        CONFIG,
        files,
        tuple(holdings(node, pod) for pod in (pods if listed is None else listed)),
        Allocatable(
            CpuSet(range(1, 16)), (Devices(GPU, ("gpu-0",), (0,)), Devices(GPU, ("gpu-1", "gpu-2"), (1,)))
        ),
        {pod.uid: pod for pod in pods},
    )


def cpus(node: Node) -> tuple[int, dict[str, dict[str, int]]]:
    return node.state.cpu.shared, node.state.cpu.owned


def memory(node: Node) -> tuple[object, object]:
    return node.state.memory.nodes, node.state.memory.blocks


def holdings(node: Node, pod: LivePod) -> PodHoldings:
    state, kubelet = node.state, node.kubelet
    held = state.device.owned.get(pod.uid, {}).get("main", {}).get(GPU, 0)
    inventory = kubelet.devices.inventories[GPU]
    devices = tuple(
        Devices(GPU, (name,), kubelet.layout.node_ids(inventory.nodes[place]))
        for place, name in enumerate(inventory.ids)
        if held >> place & 1
    )
    blocks = state.memory.blocks.get(pod.uid, {}).get("main", ())
    return PodHoldings(
        "work",
        pod.name,
        (
            ContainerHoldings(
                "main",
                CpuSet.from_mask(state.cpu.owned.get(pod.uid, {}).get("main", 0)),
                devices,
                tuple(
                    Memory(block.kind, block.size, kubelet.layout.node_ids(block.nodes)) for block in blocks
                ),
            ),
        ),
    )


def test_what_is_observed_is_the_node_that_was_there() -> None:
    first, second = live("first", 3, 1), live("second", 2)
    node = fresh().admit(first.pod).node.admit(second.pod).node
    seen = observe(facts(node, first, second))
    assert cpus(seen) == cpus(node)
    assert memory(seen) == memory(node)
    assert seen.state.device.owned == node.state.device.owned
    assert state_key(seen) == state_key(node)
    assert {uid: pod.name for uid, pod in seen.state.pods.items()} == {
        "uid-first": "first",
        "uid-second": "second",
    }


def test_a_pod_that_is_gone_for_everybody_holds_nothing_though_the_file_still_lists_it() -> None:
    first, second = live("first", 3), live("second", 2)
    node = fresh().admit(first.pod).node.admit(second.pod).node
    told = facts(node, second)
    assert observe(told).state.cpu.owned.keys() == {"uid-second"}
    ended = live("first", 3, phase="Failed")
    told = replace(facts(node, ended, second), held=(holdings(node, second),))
    assert observe(told).state.cpu.owned.keys() == {"uid-second"}


def test_a_kubelet_that_has_just_started_and_lists_nobody_does_not_free_what_they_hold() -> None:
    first = live("first", 3, 1)
    node = fresh().admit(first.pod).node
    told = facts(node, first, listed=())
    assert told.allocatable is not None
    # Nor has any plugin come back yet.
    seen = observe(replace(told, allocatable=replace(told.allocatable, devices=())))
    assert seen.state.device.owned == {"uid-first": {"main": {GPU: 0b1}}}
    assert seen.kubelet.devices.inventories[GPU].healthy == 0
    assert cpus(seen) == cpus(node)
    assert memory(seen) == memory(node)


def test_a_pod_that_the_api_server_has_forgotten_and_the_kubelet_not_still_holds() -> None:
    first = live("first", 3)
    node = fresh().admit(first.pod).node
    told = replace(facts(node, listed=(first,)), live={})
    seen = observe(told)
    assert seen.state.cpu.owned == node.state.cpu.owned
    assert seen.state.pods["uid-first"].name == "first"


def test_a_static_pod_is_found_by_its_cpus_as_the_api_server_knows_it_by_another_uid() -> None:
    static = live("static", 3, uid="0123456789abcdef0123456789abcdef")
    node = fresh().admit(static.pod).node
    mirror = live("static", 3, uid="mirror")
    told = replace(facts(node, static), live={"mirror": mirror})
    seen = observe(told)
    assert seen.state.cpu.owned.keys() == {static.uid}
    assert seen.state.pods[static.uid].name == "static"


def test_a_device_that_its_plugin_offers_no_more_is_still_held_and_counts_as_unhealthy() -> None:
    first = live("first", 3, 1)
    node = fresh().admit(first.pod).node
    told = facts(node, first)
    assert told.allocatable is not None
    fewer = replace(told.allocatable, devices=(Devices(GPU, ("gpu-1", "gpu-2"), (1,)),))
    seen = observe(replace(told, allocatable=fewer))
    inventory = seen.kubelet.devices.inventories[GPU]
    assert inventory.ids == ("gpu-0", "gpu-1", "gpu-2")
    assert seen.state.device.owned["uid-first"]["main"][GPU] == 0b001
    assert inventory.healthy == 0b110


def test_an_old_kubelet_that_cannot_be_asked_is_read_from_its_files() -> None:
    first = live("first", 3)
    node = fresh().admit(first.pod).node
    seen = observe(replace(facts(node, first), allocatable=None))
    assert cpus(seen) == cpus(node)
    assert seen.kubelet.devices.inventories[GPU].ids == ("gpu-0", "gpu-1", "gpu-2")


def refusal(told: Facts) -> tuple[str, str]:
    with pytest.raises(ObservationError) as caught:
        observe(told)
    return caught.value.cause, str(caught.value)


def test_no_state_file_is_a_kubelet_that_has_not_started_and_not_an_empty_node() -> None:
    told = facts(fresh())
    for name in ("cpu_manager_state", "memory_manager_state"):
        files = {key: data for key, data in told.files.items() if key != name}
        cause, message = refusal(replace(told, files=files))
        assert cause == "state"
        assert name in message


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b'{"policyName":"static"}', b"x" * 100])
def test_a_file_that_is_half_written_or_no_state_file_is_not_published(data: bytes) -> None:
    told = facts(fresh())
    for name in ("cpu_manager_state", "memory_manager_state"):
        assert refusal(replace(told, files={**told.files, name: data}))[0] == "state"


def test_a_state_file_with_another_checksum_is_not_believed() -> None:
    told = facts(fresh().admit(live("first", 3).pod).node, live("first", 3))
    changed = told.files["cpu_manager_state"].replace(b'"1,', b'"2,').replace(b'"1-', b'"2-')
    assert changed != told.files["cpu_manager_state"]
    assert refusal(replace(told, files={**told.files, "cpu_manager_state": changed}))[0] == "state"


def test_a_kubelet_that_runs_with_another_configuration_is_noticed() -> None:
    told = facts(fresh())
    assert told.allocatable is not None
    cause, message = refusal(replace(told, allocatable=replace(told.allocatable, cpus=CpuSet(range(2, 16)))))
    assert cause == "configuration"
    assert "2-15" in message
    assert "1-15" in message


def test_a_configuration_with_which_no_kubelet_starts_is_told_as_such() -> None:
    told = facts(fresh())
    cause, message = refusal(replace(told, config=replace(CONFIG, cpu_policy="dynamic")))
    assert cause == "configuration"
    assert "unknown policy" in message


def test_answer_and_file_that_contradict_each_other_are_a_moment_to_pass_over() -> None:
    first = live("first", 3)
    node = fresh().admit(first.pod).node
    told = facts(node, first)
    (pod,) = told.held
    other = replace(pod, containers=(replace(pod.containers[0], cpus=CpuSet([5])),))
    cause, message = refusal(replace(told, held=(other,)))
    assert cause == "disagreement"
    assert "work/first" in message
    earlier = facts(fresh())
    assert refusal(replace(told, files=earlier.files))[0] == "disagreement"


def test_a_pod_that_holds_something_and_that_nobody_else_knows_is_a_moment_to_pass_over() -> None:
    node = fresh()
    stranger = PodHoldings("work", "stranger", (ContainerHoldings("main", CpuSet([4])),))
    assert refusal(replace(facts(node), held=(stranger,)))[0] == "disagreement"
    harmless = PodHoldings("work", "stranger", (ContainerHoldings("main"),))
    assert cpus(observe(replace(facts(node), held=(harmless,)))) == cpus(node)


def test_ten_thousand_pods_are_observed() -> None:
    pods = [live(f"pod-{number}", 0) for number in range(10_000)]
    seen = observe(facts(fresh(), *pods))
    assert len(seen.state.pods) == 10_000
