"""The load for the schedulers is one that can be carried: whoever asks the kubelets first finds a place for every pod."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from e2e import load
from e2e.fake_kubelet import FakeKubelet
from numaware.kube import pods
from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Engine
from numaware.schedule.node_facts import pod_requests
from numaware.simulate.clusters import twin_of
from numaware.workload.pod import Pod

pytestmark = pytest.mark.e2e


def read(seed: int = 1) -> list[Pod]:
    """The pods as the API server would hand them on."""
    objects = list(load.pods(seed=seed))
    for item in objects:
        item["metadata"]["uid"] = item["metadata"]["name"]
    return [pods.decode(json.dumps(item).encode()).pod for item in objects]


def test_there_are_as_many_nodes_and_pods_of_each_kind_as_it_says() -> None:
    kinds = Counter(spec.name.partition("-")[0] for spec in load.nodes())
    assert kinds == {kind.name: kind.of_ten * load.NODES // 10 for kind in load.KINDS}
    shapes = Counter(pod["metadata"]["labels"]["shape"] for pod in load.pods())
    assert shapes == {shape.name: shape.of_hundred * load.PODS // 100 for shape in load.SHAPES}


def test_one_seed_makes_the_same_pods_and_another_makes_others() -> None:
    assert list(load.pods(200, seed=7)) == list(load.pods(200, seed=7))
    assert list(load.pods(200, seed=7)) != list(load.pods(200, seed=8))


@pytest.mark.parametrize("seed", [1, 2, 5])
def test_the_engine_finds_a_place_for_every_pod(seed: int) -> None:
    engine = Engine(Cluster(twin_of(spec) for spec in load.nodes()))
    for pod in read(seed):
        decision = engine.decide(pod)
        assert decision.node is not None, f"no node for {pod.name}"
        assert engine.bind(decision).admitted


def test_so_does_anybody_who_takes_any_node_that_will_have_the_pod() -> None:
    """However the nodes are scored, there is room left: a scheduler is judged by refusals, not by luck."""
    chance = random.Random(1)  # noqa: S311 - the same order every time
    kubelets = [FakeKubelet(spec) for spec in load.nodes()]
    for pod in read():
        chance.shuffle(kubelets)
        known = (kubelet for kubelet in kubelets if _has_all(kubelet, pod))
        assert any(kubelet.admit(pod).admitted for kubelet in known), f"no node for {pod.name}"


def _has_all(kubelet: FakeKubelet, pod: Pod) -> bool:
    return all(name in kubelet.allocatable for name, _ in pod_requests(pod))
