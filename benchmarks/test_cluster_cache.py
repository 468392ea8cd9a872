"""What news of a cluster costs: a pod update, a report, a pod that is bound and confirmed; run by `make bench`.

A scheduler hears of every pod several times and of every node after each of its pods, so these are what it spends beside
deciding. CPU time, best of several runs.
"""

from __future__ import annotations

import time
from itertools import count, cycle

import msgspec
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from numaware.kube import pods
from numaware.kube.topology import nrt, publish
from numaware.twin.hardware import CpuPlace, Hardware, NumaHardware, PluginDevice, PluginResource
from numaware.twin.node import Node
from support.cache_world import cache_of, live_node, live_pod
from support.live_objects import pod_object, raw
from support.twin_nodes import GI, GPU, config, pod

pytestmark = pytest.mark.benchmark(timer=time.process_time)


def busy(number: int) -> Node:
    """A node of 256 CPUs on 8 NUMA nodes, with some pods on it that own a CPU each."""
    numa = tuple(
        NumaHardware(
            node,
            tuple(
                CpuPlace(node * 16 + core + thread * 128, core, node, node)
                for core in range(16)
                for thread in range(2)
            ),
            256 * GI,
            (),
            tuple(10 if other == node else 32 for other in range(8)),
        )
        for node in range(8)
    )
    gpus = PluginResource(GPU, tuple(PluginDevice(f"GPU-{index:032}", (index,)) for index in range(8)))
    node = Node.fresh(Hardware(numa, (gpus,)), config("best-effort", memory=True))
    for index in range(number):
        verdict = node.admit(pod(f"6f9b8c7d-0000-4000-8000-{index:012}", 1))
        assert verdict.admitted
        node = verdict.node
    return node


def test_an_update_of_a_pod_is_read(benchmark: BenchmarkFixture) -> None:
    objects = cycle([raw(pod_object(f"web-{number}", node="n1")) for number in range(100)])
    found = benchmark(lambda: pods.decode(next(objects)))
    assert found.node == "n1"


@pytest.mark.parametrize("number", [20, 200])
def test_a_report_is_written(benchmark: BenchmarkFixture, number: int) -> None:
    node = busy(number)
    document = benchmark(lambda: msgspec.json.encode(publish.encode("n1", node, 1)))
    assert len(document) < 100_000


@pytest.mark.parametrize("number", [20, 200])
def test_a_report_that_confirms_what_was_known_is_taken_in(benchmark: BenchmarkFixture, number: int) -> None:
    node = busy(number)
    cache = cache_of(live_node(node))
    document = msgspec.json.encode(publish.encode("n1", node, 1))
    cache.put_report(nrt.decode(document))
    assert benchmark(lambda: cache.put_report(nrt.decode(document))) == set()


def test_a_pod_is_assumed_confirmed_and_gone(benchmark: BenchmarkFixture) -> None:
    node = busy(20)
    cache = cache_of(live_node(node))
    cache.put_report(nrt.decode(msgspec.json.encode(publish.encode("n1", node, 1))))
    numbers = count()

    def life() -> set[str]:
        asking = pod(f"p{next(numbers)}", 2)
        cache.assume(live_pod(asking, node=""), cache.engine.decide(asking))
        cache.put_pod(live_pod(asking))
        return cache.drop_pod(asking.uid)

    assert benchmark(life) == {"n1"}
