from __future__ import annotations

import json

import pytest

from numaware.errors import InputError
from numaware.schedule.ledger import (
    Observation,
    Placement,
    Prediction,
    ZonePart,
    compare,
    decode,
    encode,
    placement_of,
    predict,
)
from numaware.twin.node import Node
from numaware.workload.pod import Pod
from support.small_clusters import gpu_node
from support.twin_nodes import GI, GPU, admitted, config, container, machine, pod, pod_of


def predicted(node: Node, asking: Pod) -> Prediction:
    return predict("n0", asking, node.admit(asking))


def zones(*parts: ZonePart) -> Observation:
    return Observation(Placement(parts))


# From the twin


def test_a_prediction_says_how_much_of_each_numa_node_and_which_cpus() -> None:
    node = admitted(gpu_node(memory=True), pod("x", 7))
    found = predicted(node, pod("a", 4, 2 * GI, gpu=1))
    assert found.placement is not None
    assert found.placement.zones == (ZonePart(1, (("cpu", 4), ("memory", 2 * GI), (GPU, 1)), "8-11"),)
    (part,) = found.placement.containers
    assert (part.name, part.cpus) == ("app", "8-11")
    assert part.memory == (((1,), "memory", 2 * GI),)
    assert part.devices == ((GPU, ((1, 1),)),)


def test_a_refusal_is_a_prediction_too() -> None:
    found = predicted(gpu_node("single-numa-node"), pod("a", 12))
    assert (found.placement, found.reason) == (None, "TopologyAffinityError")


def test_memory_charged_to_two_numa_nodes_is_listed_in_equal_parts() -> None:
    node = gpu_node(memory=True)
    found = predicted(node, pod("a", 12, 100 * GI + 1))
    assert found.placement is not None
    assert [dict(part.amounts)["memory"] for part in found.placement.zones] == [50 * GI + 1, 50 * GI]


def test_init_containers_that_end_do_not_count_and_sidecars_do() -> None:
    asking = pod_of(
        "a",
        container("app", {"cpu": 2, "memory": 1}),
        init=(
            container("setup", {"cpu": 6, "memory": 1}),
            container("proxy", {"cpu": 1, "memory": 1}, restartable=True),
        ),
    )
    node = admitted(gpu_node("none"), asking)
    placement = placement_of(node, asking)
    assert [part.name for part in placement.containers] == ["proxy", "app"]
    assert sum(dict(part.amounts)["cpu"] for part in placement.zones) == 3


def test_a_device_on_two_numa_nodes_counts_on_both_and_one_on_none_on_none() -> None:
    node = Node.fresh(machine(2, devices={GPU: {"both": (0, 1), "none": ()}}), config())
    placed = placement_of(admitted(node, pod("a", gpu=2)), pod("a", gpu=2))
    assert placed.zones == (ZonePart(0, ((GPU, 1),)), ZonePart(1, ((GPU, 1),)))


def test_a_pod_that_shares_everything_has_no_zones() -> None:
    assert placement_of(admitted(gpu_node(), pod("a")), pod("a")).zones == ()


# The annotation


def test_the_annotation_has_the_agreed_form() -> None:
    placement = Placement((ZonePart(0, (("cpu", 8), ("nvidia.com/gpu", 1)), "1-8"),))
    assert encode(placement) == '[{"zone":"node-0","amount":{"cpu":"8","nvidia.com/gpu":"1"},"cpus":"1-8"}]'


def test_what_is_written_is_read_back() -> None:
    node = admitted(gpu_node(memory=True), pod("a", 12, 100 * GI, gpu=3))
    placement = placement_of(node, pod("a", 12, 100 * GI, gpu=3))
    assert decode(encode(placement), "pod a").zones == placement.zones


def test_annotations_of_others_are_read_in_any_order_and_spelling() -> None:
    text = '[{"zone":"node-1","amount":{"memory":"1Gi"},"more":1},{"zone":"node-0","amount":{"cpu":"2","x":"0"}}]'
    assert decode(text, "pod a").zones == (ZonePart(0, (("cpu", 2),)), ZonePart(1, (("memory", GI),)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        '[{"zone":"node-0"}]',
        '[{"zone":"socket-0","amount":{}}]',
        '[{"zone":"node-","amount":{}}]',
        '[{"zone":"node-\u0663","amount":{}}]',
        '[{"zone":"node-99999","amount":{}}]',
        '[{"zone":"node-0","amount":{"cpu":"many"}}]',
        '[{"zone":"node-0","amount":{"cpu":"-1"}}]',
        '[{"zone":"node-0","amount":{"cpu":"1"},"cpus":"3-"}]',
        '[{"zone":"node-0","amount":{}},{"zone":"node-0","amount":{}}]',
        "[" * 5000,
        "\ud800",
        json.dumps([{"zone": "node-0", "amount": {}}] * 20_000),
    ],
)
def test_what_is_no_placement_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(InputError) as refused:
        decode(text, "pod a")
    assert str(refused.value).startswith("pod a: ")
    assert "\n" not in str(refused.value)


# Comparison

ONE = ZonePart(0, (("cpu", 2),), "1-2")
PREDICTED = Prediction("a", "default/a", "n0", Placement((ONE,)))
REFUSED = Prediction("a", "default/a", "n0", None, "TopologyAffinityError")


@pytest.mark.parametrize(
    ("prediction", "observed", "outcome"),
    [
        (PREDICTED, zones(ONE), "match"),
        (PREDICTED, zones(ZonePart(0, (("cpu", 2),))), "match"),
        (PREDICTED, zones(ZonePart(0, (("cpu", 2),), "3-4")), "wrong_cpus"),
        (PREDICTED, zones(ZonePart(1, (("cpu", 2),), "1-2")), "wrong_zone"),
        (PREDICTED, zones(ZonePart(0, (("cpu", 3),), "1-2")), "wrong_zone"),
        (PREDICTED, zones(), "wrong_zone"),
        (PREDICTED, Observation(None, "TopologyAffinityError"), "rejected"),
        (None, Observation(None, "TopologyAffinityError"), "rejected"),
        (None, zones(ONE), "unexpected"),
        (REFUSED, zones(ONE), "unexpected"),
        (REFUSED, Observation(None, "TopologyAffinityError"), "match"),
    ],
)
def test_outcomes(prediction: Prediction | None, observed: Observation, outcome: str) -> None:
    assert compare(prediction, observed) == outcome
