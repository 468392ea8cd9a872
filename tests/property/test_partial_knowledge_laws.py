"""The law of incomplete knowledge: what a partly known node admits, the real one admits, whatever was hidden."""

from __future__ import annotations

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from numaware.machine.node_topology import ZoneCounts
from numaware.schedule.partial_node import UNKNOWN, partial_node
from numaware.schedule.published_counts import Counts
from numaware.twin.errors import KubeletPanic
from numaware.twin.node import Node
from numaware.workload.demand import demand
from numaware.workload.pod import Pod
from property.strategies_twin import histories, kinds_of, nodes, pods
from support.published_counts import are_plain, published


def told(node: Node, data: st.DataObject) -> Counts:
    """The counts of a node, and of its settings whatever somebody happens to know."""
    counts = published(node, devices=data.draw(st.booleans(), label="devices told"))
    config = node.kubelet.config
    if config.cpu_policy == "none" and data.draw(st.booleans(), label="CPUs told without a manager"):
        counts = replace(counts, zones=tuple(with_cpus(zone, data) for zone in counts.zones))
    known = data.draw(
        st.sets(st.sampled_from(["cpu", "options", "memory", "topology", "threads"])), label="known"
    )
    if "cpu" in known:
        counts = replace(counts, cpu_policy=config.cpu_policy)
    if "options" in known and config.cpu_policy == "static":
        counts = replace(counts, cpu_options=config.cpu_options)
    if "memory" in known:
        counts = replace(counts, memory_policy=config.memory_policy)
    if "topology" in known:
        counts = replace(counts, topology_options=config.topology_options)
    if "threads" in known:
        counts = replace(counts, threads=node.kubelet.layout.cpus_per_core)
    if data.draw(st.integers(0, 3), label="policy hidden") == 0:
        counts = replace(counts, policy=None, scope=None)
    return counts


def with_cpus(zone: ZoneCounts, data: st.DataObject) -> ZoneCounts:
    amounts = dict(zone.capacity)
    kept = data.draw(st.integers(0, min(1, amounts["cpu"])), label="kept back")
    cpus = amounts["cpu"] - kept
    return replace(
        zone,
        allocatable=tuple(sorted({**dict(zone.allocatable), "cpu": cpus}.items())),
        available=tuple(sorted({**dict(zone.available), "cpu": cpus}.items())),
    )


def has_devices(node: Node, pod: Pod) -> bool:
    """What any scheduler looks at first: whether the node has as many devices left in all as the pod asks for."""
    manager = node.kubelet.devices
    return all(
        manager.free(node.state.device, name).bit_count() >= count
        for name, count in demand(pod).devices
        if name in manager.inventories
    )


@settings(max_examples=250)
@given(nodes(), st.data())
def test_what_a_partly_known_node_admits_the_real_one_admits(node: Node, data: st.DataObject) -> None:
    for step in data.draw(histories(node, 4)):
        try:
            node = node.admit(step.pod).node if step.pod else node.release(f"pod-{step.leaves}")
        except KubeletPanic:
            assume(False)
    counts = told(node, data)
    assume(are_plain(node, counts))
    # A kubelet that leaves no CPU to pods has no pods.
    assume(node.kubelet.cpus is None or counts.total("cpu") > 0)
    partial: Node = partial_node(counts)
    kinds = kinds_of(node)
    for number in range(4):
        pod = data.draw(pods(f"new-{number}", kinds))
        if not has_devices(node, pod):
            continue
        verdict = partial.admit(pod)
        event("admitted" if verdict.admitted else "unknown" if verdict.reason == UNKNOWN else "refused")
        if not verdict.admitted:
            continue
        real = node.admit(pod)
        assert real.admitted, (real.message, node.kubelet.config, counts)
        partial, node = verdict.node, real.node
        if data.draw(st.integers(0, 3)) == 0:
            partial, node = partial.release(pod.uid), node.release(pod.uid)
