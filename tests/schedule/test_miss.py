from __future__ import annotations

import json

import msgspec
import pytest

from numaware.errors import InputError
from numaware.machine.cpuset import list_form
from numaware.schedule.ledger import Observation, Placement, ZonePart, predict
from numaware.schedule.miss import again, bundle
from numaware.twin.node import Node
from numaware.twin.recording import Recording, replay
from support.small_clusters import gpu_node
from support.twin_nodes import GI, GPU, NIC, admitted, config, container, cpus_of, machine, pod, pod_of

REFUSED = Observation(None, "TopologyAffinityError")


def test_a_miss_can_be_replayed_from_its_file() -> None:
    before = admitted(gpu_node(memory=True), pod("x", 7, 3 * GI, gpu=1))
    asking = pod("a", 4, 2 * GI, gpu=1)
    prediction = predict("n0", asking, before.admit(asking))
    made = bundle(before, asking, prediction, REFUSED)
    recorded = msgspec.json.decode(json.dumps(made), type=Recording)
    last = replay(recorded.scenario)["events"][-1]
    assert last["admitted"]
    assert [each["cpuset"] for each in last["containers"]] == ["8-11"]
    assert (made["outcome"], made["exact"]) == ("rejected", True)
    assert made["observed"] == {"admitted": False, "reason": "TopologyAffinityError"}
    assert list_form(made["state"]["cpu"]["shared"]) == "0,8-15"


def test_everything_about_machine_configuration_and_pods_goes_along() -> None:
    devices: dict[str, dict[str, tuple[int, ...]]] = {GPU: {"g0": (0,), "g1": ()}, NIC: {"n0": (0, 1)}}
    before = Node.fresh(
        machine(2, 8, threads=2, hugepages=GI, devices=devices),
        config(
            "best-effort", scope="pod", memory=True, cpu_options=(("full-pcpus-only", "true"),), reserved="2"
        ),
    )
    asking = pod_of(
        "a",
        container("app", {"cpu": 2, "memory": GI, GPU: 1, NIC: 1}),
        init=(container("side", {"cpu": 2, "memory": GI}, restartable=True),),
    )
    made = bundle(before, asking, predict("n0", asking, before.admit(asking)), REFUSED)
    assert made["exact"]


def test_a_state_that_pods_in_order_do_not_lead_to_is_said_to_be_so() -> None:
    """The first pod has left: played from the start, the second would sit where the first did."""
    before = admitted(gpu_node("none"), pod("gone", 4), pod("stays", 4)).release("gone")
    asking = pod("a", 3)
    made = bundle(before, asking, predict("n0", asking, before.admit(asking)), REFUSED)
    assert not made["exact"]
    ((uid, containers),) = made["state"]["cpu"]["owned"].items()
    assert (uid, list_form(containers["app"])) == ("stays", cpus_of(before, "stays"))


def test_a_refusal_that_did_not_come_is_kept_with_what_was_seen() -> None:
    before = gpu_node("single-numa-node")
    asking = pod("a", 12)
    seen = Observation(Placement((ZonePart(0, (("cpu", 12),), "1-12"),)))
    made = bundle(before, asking, predict("n0", asking, before.admit(asking)), seen)
    assert (made["outcome"], made["exact"]) == ("unexpected", True)
    assert made["predicted"] == {"admitted": False, "reason": "TopologyAffinityError"}
    assert made["observed"]["placement"]["zones"][0]["cpus"] == "1-12"


def test_equal_misses_give_equal_bytes() -> None:
    asking = pod("a", 4, gpu=1)
    made = [
        json.dumps(bundle(gpu_node(), asking, predict("n0", asking, gpu_node().admit(asking)), REFUSED))
        for _ in range(2)
    ]
    assert made[0] == made[1]


def test_a_miss_that_the_twin_now_predicts_is_explained() -> None:
    """The kubelet did what the twin says today; whatever was predicted then is only told."""
    before = admitted(gpu_node(memory=True), pod("x", 7, 3 * GI, gpu=1))
    asking = pod("a", 4, 2 * GI, gpu=1)
    right = predict("n0", asking, before.admit(asking))
    wrong = msgspec.structs.replace(right, placement=Placement((ZonePart(0, (("cpu", 4),), "0-3"),)))
    made = json.dumps(bundle(before, asking, wrong, Observation(right.placement))).encode()
    found = again(made, "miss.json")
    assert (found.outcome, found.explained) == ("wrong_zone", True)
    assert found.now.placement == right.placement


def test_a_refusal_that_the_twin_does_not_see_is_not_explained() -> None:
    before = gpu_node()
    asking = pod("a", 4)
    made = json.dumps(bundle(before, asking, predict("n0", asking, before.admit(asking)), REFUSED)).encode()
    found = again(made, "miss.json")
    assert not found.explained
    assert found.observed == REFUSED


def test_pods_that_have_left_are_in_the_state() -> None:
    """x and y came, x left: the pods that are there do not tell why y is where it is."""
    full = admitted(admitted(gpu_node(), pod("x", 7)), pod("y", 7))
    before = full.release("x")
    asking = pod("a", 8)
    cache = predict("n0", asking, before.admit(asking))
    made = json.dumps(bundle(before, asking, cache, Observation(cache.placement, cache.reason))).encode()
    assert again(made, "miss.json").explained


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"scenario":{}}', b"\xff", b'{"scenario":'])
def test_what_is_no_miss_is_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(InputError, match=r"miss\.json: not a kept miss"):
        again(data, "miss.json")


def test_a_miss_on_a_kubelet_that_keeps_pending_cpus_predicts_what_was_predicted() -> None:
    """v1.28 lets go of a pod that left only when the next one comes: state files alone do not tell."""
    fresh = Node.fresh(machine(2, 8), config("single-numa-node", version="v1.28.0"))
    before = admitted(fresh, pod("left", 4))
    before = Node(before.kubelet, msgspec.structs.replace(before.state, pods={}))
    asking = pod("a", 7)
    prediction = predict("n0", asking, before.admit(asking))
    seen = Observation(prediction.placement, prediction.reason)
    assert again(json.dumps(bundle(before, asking, prediction, seen)).encode(), "miss.json").explained
