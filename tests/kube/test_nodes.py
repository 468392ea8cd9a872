from __future__ import annotations

from typing import Any

import pytest

from numaware.kube.decoding import DecodeError
from numaware.kube.nodes import LiveTaint, decode
from support.live_objects import node_object, raw


def test_a_node_shows_amounts_as_schedulers_count_them() -> None:
    live = decode(raw(node_object()))
    assert live.allocatable == (("cpu", 16000), ("memory", 64 << 30), ("nvidia.com/gpu", 2), ("pods", 110))
    assert live.labels == (("arch", "amd64"), ("zone", "a"))
    assert live.taints == (LiveTaint("gpu", "NoSchedule", "yes"),)
    assert (live.kubelet_version, live.ready, live.unschedulable) == ("v1.35.8", True, False)


def test_a_node_that_says_nothing_has_nothing_and_is_not_ready() -> None:
    live = decode(b'{"metadata": {"name": "n"}}')
    assert (live.allocatable, live.labels, live.taints, live.ready) == ((), (), (), False)


def test_a_node_written_again_without_change_is_the_same() -> None:
    before = decode(raw(node_object()))
    written = node_object()
    written["metadata"]["resourceVersion"] = "99"
    assert before == decode(raw(written))
    written["spec"]["unschedulable"] = True
    assert before != decode(raw(written))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"status": {"allocatable": {"cpu": "-1"}}}, "cpu is below zero: -1"),
        ({"status": {"allocatable": {"cpu": "lots"}}}, "not a quantity"),
        ({"spec": {"taints": [{"key": "a", "effect": "Sometimes"}]}}, "Invalid enum value 'Sometimes'"),
    ],
)
def test_a_node_that_cannot_be_read_is_one_error_with_its_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(raw(node_object(**changes)))
    assert caught.value.subject == "node n1"
    assert message in caught.value.message


def test_images_go_by_every_name_they_have() -> None:
    images = [{"names": ["app@sha256:1", "app:v1"], "sizeBytes": 7}, {"sizeBytes": 3}, {"names": ["b:v2"]}]
    found = decode(raw({"metadata": {"name": "n"}, "status": {"images": images}}))
    assert found.images == (("app:v1", 7), ("app@sha256:1", 7), ("b:v2", 0))
