"""The law of a node that is written down: whoever reads it has the same node, gates and options included.

Recordings, kept misses, the console's history and the agent's object are views of one codec, and each is held to it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from numaware.kube.topology import nrt, publish
from numaware.schedule.cluster import Load
from numaware.schedule.ledger import Observation, predict
from numaware.schedule.miss import bundle, kept_miss
from numaware.schedule.node_facts import NodeFacts
from numaware.serve.console.history.snapshot import Heard, NodeMoment, Packer, Unpacker
from numaware.twin.config import KubeletConfig, MemoryReservation
from numaware.twin.errors import KubeletPanic, StartError
from numaware.twin.hardware import DeviceLink, Hardware, LastCache
from numaware.twin.node import Node, Verdict
from numaware.twin.recording import Recording
from numaware.twin.scenario import Scenario, arranged
from numaware.workload.pod import NANO, Pod
from property.strategies_twin import Step, histories, kinds_of, nodes, pods
from support.twin_nodes import config, machine, quantities, state_key

GATE_NAMES = (
    "CPUManagerPolicyAlphaOptions",
    "CPUManagerPolicyBetaOptions",
    "CPUManagerPolicyOptions",
    "MemoryManager",
    "TopologyManagerPolicyAlphaOptions",
    "TopologyManagerPolicyBetaOptions",
    "TopologyManagerPolicyOptions",
    "UnknownToThisRelease",
)
RESERVED = ("500m", "1", "1500m", "100Mi", "1Gi", "3G", "1e3", "0")


@st.composite
def configured(draw: st.DrawFn, node: Node) -> Node:
    """The node with other gates, reservations and thresholds, and with links and caches that only lookers need."""
    config = node.kubelet.config
    gates = draw(st.dictionaries(st.sampled_from(GATE_NAMES), st.booleans()))
    changes = replace(
        config,
        feature_gates=tuple(sorted({**dict(config.feature_gates), **gates}.items())),
        system_reserved=quantities(
            draw(st.dictionaries(st.sampled_from(["ephemeral-storage", "pid"]), st.sampled_from(RESERVED)))
        ),
        eviction_hard=draw(st.sampled_from([(), (("nodefs.available", "10%"),)])),
    )
    try:
        return Node.fresh(looked_at(node.kubelet.hardware), changes)
    except StartError:
        return Node.fresh(looked_at(node.kubelet.hardware), config)


def looked_at(hardware: Hardware) -> Hardware:
    devices = [(one.name, device.id) for one in hardware.resources for device in one.devices]
    cpus = sum(1 << cpu.id for numa in hardware.numa for cpu in numa.cpus)
    links = (DeviceLink(devices[0], devices[-1], "PIX"),) if len(devices) > 1 else ()
    return replace(hardware, links=links, caches=(LastCache(cpus, 32 << 20),))


def lived(node: Node, steps: list[Step]) -> Node:
    for step in steps:
        node = node.admit(step.pod).node if step.pod else node.release(f"pod-{step.leaves}")
    return node


def recorded(node: Node) -> Node:
    """A fresh node through a recorded session; what it holds is not in there."""
    text = msgspec.json.encode(Recording(Scenario.of("n1", node, ())))
    return arranged(msgspec.json.decode(text, type=Recording).scenario)[0]


def missed(node: Node) -> Node:
    asking = Pod("asking", uid="asking")
    prediction = predict("n1", asking, node.admit(asking))
    made = bundle(node, asking, prediction, Observation(None, "TopologyAffinityError"))
    return kept_miss(msgspec.json.encode(made), "miss.json").before


def remembered(node: Node) -> Node:
    values: list[bytes] = []

    def number_of(value: bytes) -> int:
        values.append(value)
        return len(values) - 1

    moment = NodeMoment(NodeFacts("n1"), Load(node, {}, {}, {}), {}, {}, Heard("reported", 1, 0, lately=True))
    packed = Packer(number_of).node(moment)
    return Unpacker(values.__getitem__).node(packed).load.node


def published(node: Node) -> Node:
    report = nrt.decode(msgspec.json.encode(publish.encode("n1", node, 1)))
    assert report.problem == ""
    assert report.complete is not None
    return report.complete.node


def names_of(node: Node) -> dict[str, tuple[str, str, str]]:
    return {uid: (pod.uid, pod.namespace, pod.name) for uid, pod in node.state.pods.items()}


def answer(node: Node, pod: Pod) -> tuple[object, ...]:
    try:
        verdict: Verdict = node.admit(pod)
    except KubeletPanic as crash:
        return ("panic", str(crash))
    after = verdict.node
    return (
        verdict.admitted,
        verdict.reason,
        verdict.message,
        state_key(after)[1:],
        state_key(after.release(pod.uid))[1:],
    )


@pytest.mark.parametrize("view", [missed, remembered, published])
@settings(max_examples=40)
@given(data=st.data())
def test_a_node_is_the_same_after_each_way_of_writing_it_down(
    view: Callable[[Node], Node], data: st.DataObject
) -> None:
    fresh = data.draw(nodes())
    fresh = data.draw(configured(fresh))
    try:
        node = lived(fresh, data.draw(histories(fresh)))
    except KubeletPanic:
        assume(False)
    read = view(node)
    assert read.kubelet.config == node.kubelet.config
    if view is published:
        # Devices are numbered there, so that machines of one kind are equal.
        assert read.kubelet.hardware.numa == node.kubelet.hardware.numa
        assert read.kubelet.hardware.caches == node.kubelet.hardware.caches
        assert len(read.kubelet.hardware.links) == len(node.kubelet.hardware.links)
        assert names_of(read) == names_of(node)
    else:
        assert read.kubelet.hardware == node.kubelet.hardware
        assert list(read.state.pods.items()) == list(node.state.pods.items())
    assert (read.state.cpu, read.state.memory, read.state.device) == (
        node.state.cpu,
        node.state.memory,
        node.state.device,
    )
    for number in range(3):
        pod = data.draw(pods(f"next-{number}", kinds_of(node)))
        assert answer(read, pod) == answer(node, pod)


@settings(max_examples=40)
@given(data=st.data())
def test_a_recorded_machine_and_configuration_are_the_same_again(data: st.DataObject) -> None:
    node = data.draw(configured(data.draw(nodes())))
    read = recorded(node)
    assert (read.kubelet.config, read.kubelet.hardware) == (node.kubelet.config, node.kubelet.hardware)
    pod = data.draw(pods("next", kinds_of(node)))
    assert answer(read, pod) == answer(node, pod)


def test_every_setting_survives() -> None:
    """One value that is not the default for each field of a configuration, whichever is added later."""
    everything = KubeletConfig(
        version="v1.31.2",
        topology_policy="restricted",
        topology_scope="pod",
        topology_options=(("max-allowable-numa-nodes", "12"), ("prefer-closest-numa-nodes", "true")),
        cpu_policy="static",
        cpu_options=(("full-pcpus-only", "true"),),
        memory_policy="Static",
        kube_reserved=quantities({"cpu": "1", "memory": "1Gi"}),
        system_reserved=quantities({"memory": "100Mi"}),
        eviction_hard=(("memory.available", "100Mi"),),
        reserved_cpus="0",
        reserved_memory=(MemoryReservation(0, quantities({"memory": "1224Mi"})),),
        feature_gates=(("CPUManagerPolicyAlphaOptions", False), ("TopologyManagerPolicyAlphaOptions", True)),
    )
    default = KubeletConfig()
    assert all(getattr(everything, name) != getattr(default, name) for name in everything.__struct_fields__)
    node = Node.fresh(machine(2, 8), everything)
    for view in (recorded, missed, remembered, published):
        assert view(node).kubelet.config == everything


def test_a_pod_of_a_kept_miss_has_its_own_resources() -> None:
    """What a pod asks for as a whole, its class and its overhead are part of what the kubelet judges."""
    own = (("cpu", 2 * NANO), ("memory", NANO << 30))
    asking = Pod("a", uid="a", pod_requests=own, pod_limits=own, overhead=own[:1], qos="Guaranteed")
    node = Node.fresh(machine(2, 8), config())
    made = bundle(node, asking, predict("n1", asking, node.admit(asking)), Observation(None))
    assert kept_miss(msgspec.json.encode(made), "miss.json").pod == asking
