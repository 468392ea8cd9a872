"""The law of our own reports: whoever reads one has the node itself, whatever happened on it before."""

from __future__ import annotations

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from numaware.kube.topology import nrt, publish
from numaware.machine.node_topology import ZoneCounts
from numaware.twin.equivalence import node_class
from numaware.twin.errors import KubeletPanic
from numaware.twin.hardware import Hardware
from numaware.twin.node import Node, Verdict
from property.strategies_twin import Step, histories, kinds_of, nodes, pods
from support.published_counts import published
from support.twin_nodes import state_key


def reported(node: Node, generation: int = 1) -> Node:
    """The node as a reader of its report has it."""
    report = nrt.decode(msgspec.json.encode(publish.encode("n1", node, generation)))
    assert report.problem == ""
    assert report.complete is not None
    assert report.complete.generation == generation
    return report.complete.node


def lived(node: Node, steps: list[Step]) -> Node:
    for step in steps:
        node = node.admit(step.pod).node if step.pod else node.release(f"pod-{step.leaves}")
    return node


def books(node: Node) -> tuple[object, ...]:
    """All that any later answer depends on, with devices by number as readers have them."""
    return state_key(node)[1:]


def without_names(hardware: Hardware) -> Hardware:
    resources = tuple(
        replace(
            resource,
            devices=tuple(replace(device, id=f"{index:06}") for index, device in enumerate(resource.devices)),
        )
        for resource in hardware.resources
    )
    return replace(hardware, resources=resources)


def answer(node: Node, verdict: Verdict | None) -> tuple[object, ...]:
    if verdict is None:
        return ("panic",)
    return verdict.admitted, verdict.reason, verdict.message, books(verdict.node)


@settings(max_examples=60)
@given(st.data())
def test_a_node_read_from_its_report_behaves_as_the_node(data: st.DataObject) -> None:
    fresh = data.draw(nodes())
    try:
        node = lived(fresh, data.draw(histories(fresh)))
    except KubeletPanic:
        assume(False)
    read = reported(node)
    assert read.kubelet.config == node.kubelet.config
    assert read.kubelet.hardware == without_names(node.kubelet.hardware)
    assert books(read) == books(node)
    assert node_class(read)[1:] == node_class(node)[1:]  # type: ignore[index]  # a class is opaque, but a tuple
    assert read.state.pods.keys() == node.state.pods.keys()
    for uid in node.state.pods:
        assert books(read.release(uid)) == books(node.release(uid))
    pod = data.draw(pods("next", kinds_of(node)))
    verdicts: list[Verdict | None] = []
    for one in (node, read):
        try:
            verdicts.append(one.admit(pod))
        except KubeletPanic:
            verdicts.append(None)
    assert answer(read, verdicts[1]) == answer(node, verdicts[0])


@settings(max_examples=40)
@given(st.data())
def test_equal_nodes_give_equal_bytes_and_reading_loses_nothing_twice(data: st.DataObject) -> None:
    fresh = data.draw(nodes())
    try:
        node = lived(fresh, data.draw(histories(fresh)))
    except KubeletPanic:
        assume(False)
    once = reported(node)
    again = reported(once)
    encoded = [msgspec.json.encode(publish.encode("n1", one, 3)) for one in (once, again)]
    assert encoded[0] == encoded[1]


@settings(max_examples=40)
@given(st.data())
def test_others_read_the_same_counts_from_our_zones(data: st.DataObject) -> None:
    """Without our own attributes the object is what any publisher would have written of the node."""
    fresh = data.draw(nodes())
    assume([numa.id for numa in fresh.kubelet.hardware.numa] == list(range(len(fresh.kubelet.layout.ids))))
    # Huge pages larger than the memory they are in make amounts that no other publisher could write either.
    assume(
        all(
            sum(size for _, size in numa.hugepages) < numa.memory_bytes
            for numa in fresh.kubelet.hardware.numa
        )
    )
    try:
        node = lived(fresh, data.draw(histories(fresh)))
    except KubeletPanic:
        assume(False)
    document = publish.encode("n1", node, 1)
    document["attributes"] = [item for item in document["attributes"] if "/" not in item["name"]]
    report = nrt.decode(msgspec.json.encode(document))
    assert (report.problem, report.complete) == ("", None)
    counts = published(node)
    assert (report.policy, report.scope) == (counts.policy, counts.scope)
    assert [healthy(zone) for zone in report.zones] == [healthy(zone) for zone in counts.zones]


def healthy(zone: ZoneCounts) -> ZoneCounts:
    """A zone without the devices of which none works, which only we list."""
    listed = {name for name, amount in zone.allocatable if amount or "/" not in name}

    def kept(amounts: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
        return tuple((name, amount) for name, amount in amounts if name in listed)

    return replace(
        zone,
        capacity=tuple(
            (name, amount if "/" not in name else dict(zone.allocatable)[name])
            for name, amount in kept(zone.capacity)
        ),
        allocatable=kept(zone.allocatable),
        available=kept(zone.available),
    )
