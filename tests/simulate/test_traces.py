"""Pods of one seed: always the same ones, in the same order."""

from __future__ import annotations

import msgspec
import pytest

from numaware.errors import InputError
from numaware.simulate.traces import Generator, Shape, TimedPod, Trace, arrivals, asked, joined
from support.lab_worlds import guaranteed, trace
from support.twin_nodes import GPU

MIXED = trace(
    guaranteed("whole", 1, gpu=2), guaranteed("part", 1, share=500), guaranteed("plain", 4), gap=1000
)


def test_pods_are_drawn_until_they_ask_for_the_share_of_all_gpus() -> None:
    drawn = arrivals(msgspec.structs.replace(MIXED, arrive=1300), 1, GPU, 100_000)
    total = sum(asked(one.pod, GPU) for one in drawn)
    assert 130_000 <= total < 132_000
    assert len({one.pod.uid for one in drawn}) == len(drawn)
    assert [one.time for one in drawn] == [1000 * number for number in range(len(drawn))]
    assert {one.lifetime for one in drawn} == {None}


def test_drawing_keeps_the_mix_of_the_trace() -> None:
    drawn = arrivals(msgspec.structs.replace(MIXED, arrive=1000), 7, GPU, 100_000)
    kinds = [one.owner for one in drawn]
    assert (
        max(kinds.count(owner) for owner in set(kinds)) - min(kinds.count(owner) for owner in set(kinds)) <= 1
    )


def test_a_seed_repeats_and_another_seed_differs() -> None:
    arriving = msgspec.structs.replace(MIXED, arrive=1000)
    assert arrivals(arriving, 1, GPU, 50_000) == arrivals(arriving, 1, GPU, 50_000)
    assert arrivals(arriving, 1, GPU, 50_000) != arrivals(arriving, 2, GPU, 50_000)


def test_a_limit_takes_the_first_pods() -> None:
    everything = arrivals(MIXED, 1, GPU, 0)
    assert arrivals(msgspec.structs.replace(MIXED, limit=2), 1, GPU, 0) == everything[:2]


def test_nothing_is_drawn_from_a_trace_that_asks_for_no_gpus() -> None:
    assert arrivals(msgspec.structs.replace(trace(guaranteed("plain", 1)), arrive=1000), 1, GPU, 8000) == []


def test_a_generator_makes_its_shapes_by_weight_and_lets_them_live_within_bounds() -> None:
    shapes = (Shape(guaranteed("a", 1), "a", 9), Shape(guaranteed("b", 1), "b", 1))
    made = Trace("t", generators=(Generator(shapes, 400, 5000, 2000, (10, 20)),))
    found = arrivals(made, 3, GPU, 0)
    assert len(found) == 400
    assert 20 <= sum(one.owner == "b" for one in found) <= 70
    assert found[0].time == 5000
    assert found == sorted(found, key=lambda one: one.time)
    assert all(one.lifetime is not None and 10 <= one.lifetime <= 20 for one in found)
    mean = (found[-1].time - 5000) / 399
    assert 1500 < mean < 2500


def test_a_daemon_set_makes_one_pod_for_each_node() -> None:
    made = Trace("t", (TimedPod(guaranteed("agent", 1), "DaemonSet/agent", on_every_node=True),))
    found = arrivals(made, 1, GPU, 0, ["n0", "n1"])
    assert [one.pod.scheduling.node.node_name for one in found] == ["n0", "n1"]
    assert len({one.pod.uid for one in found}) == 2


def test_pods_of_a_cluster_file_cannot_be_joined_with_drawn_ones() -> None:
    with pytest.raises(InputError, match="draws pods from the trace alone"):
        joined(MIXED, msgspec.structs.replace(MIXED, arrive=1000))
    assert len(joined(MIXED, MIXED).pods) == 6
