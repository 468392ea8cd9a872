"""Pods that are not as they seem, in the cluster cache: some cannot be read in full, some are being resized."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kube.fake_api_server import FakeApiServer, until
from numaware.diagnose.texts import say
from numaware.kube.pods import LivePod, decode
from numaware.serve.listing import node_rows
from numaware.twin.node import Node
from serve.test_watches import play, warnings, watching
from support.cache_world import cache_of, complete, free_cpus, live_node
from support.live_cluster import add_node, add_pod
from support.live_objects import pod_object, raw
from support.live_pods import live
from support.scheduler_scene import Scene
from support.small_clusters import gpu_node
from support.twin_nodes import GI, admitted, config, machine, pod, pod_of

LATER: dict[str, Any] = {"tolerations": [{"key": "k", "operator": "Near", "value": "3"}]}
PROBLEM = 'spec.tolerations[0].operator: Unsupported value: "Near"'


def later(name: str = "odd", **more: Any) -> LivePod:
    """A pod of a release that has an operator more."""
    return decode(raw(pod_object(name, spec=LATER, uid=name, **more)))


def fresh() -> Node:
    """Two NUMA nodes of four CPUs, the first CPU the system's."""
    return Node.fresh(machine(2, 4), config("restricted"))


# Pods that cannot be read in full


def test_a_bound_pod_that_cannot_be_read_counts_and_its_node_is_in_doubt() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    assert cache.put_pod(later(cpu="3", node="n1")) == {"n1"}
    assert cache.engine.cluster.by_name["n1"].load.used["cpu"] == 3000
    # What it holds nobody knows: whoever wants a part of the node for himself would get its CPUs.
    refused = cache.engine.decide(pod("b", 4))
    assert refused.node is None
    assert [say(reason) for reason, _ in refused.reasons] == [
        "node(s) have pods of which nobody knows what they hold"
    ]
    assert cache.engine.decide(pod_of("easy")).node == "n1"
    known = cache.knowledge("n1")
    assert known is not None
    assert known.astray == ("odd",)
    assert known.problem.startswith(f"pod default/odd cannot be read in full: {PROBLEM}")
    assert [row.problem for row in node_rows(cache)] == [known.problem]
    assert cache.unread_pods == 1


def test_a_report_that_shows_what_it_holds_ends_the_doubt_and_not_the_word_about_it() -> None:
    node, odd = fresh(), later(cpu="3", node="n1")
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    cache.put_pod(odd)
    cache.put_report(complete(admitted(node, odd.pod), generation=2))
    assert free_cpus(cache) == "4-7"
    assert cache.engine.decide(pod("b", 4)).node == "n1"
    known = cache.knowledge("n1")
    assert known is not None
    assert (known.astray, PROBLEM in known.problem) == ((), True)


def test_a_pod_that_is_put_right_is_a_pod_like_any_other() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    cache.put_pod(later(cpu="3", node="n1"))
    cache.put_pod(decode(raw(pod_object("odd", uid="odd", cpu="3", node="n1"))))
    assert (free_cpus(cache), cache.unread_pods) == ("4-7", 0)
    known = cache.knowledge("n1")
    assert known is not None
    assert (known.astray, known.problem) == ((), "")


def test_one_that_is_gone_takes_the_doubt_along() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    cache.put_pod(later(node="n1"))
    cache.drop_pod("odd")
    assert cache.engine.decide(pod("b", 4)).node == "n1"


def test_a_pod_of_ours_that_cannot_be_read_is_told_so_and_not_placed() -> None:
    scene = Scene(gpu_node())

    async def story(scene: Scene) -> None:
        scene.arrive(later())

    scene.play(story)
    assert scene.actions.bound == []
    told = scene.actions.refused["odd"]
    assert told.startswith(
        f"0/1 nodes are available: 1 cannot be judged: the pod cannot be read in full: {PROBLEM}"
    )


def test_it_is_placed_once_it_can_be_read() -> None:
    scene = Scene(gpu_node())

    async def story(scene: Scene) -> None:
        scene.arrive(later())
        await scene.settle()
        scene.arrive(live(pod("odd", 2)))
        for _ in range(5):
            scene.now += 60
            scene.scheduler.nodes_changed({"n0"})
            await scene.settle()

    scene.play(story)
    assert scene.actions.bound == [("odd", "n0")]


def test_the_log_says_it_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def story(server: FakeApiServer) -> None:
        add_node(server, "n0", gpu_node())
        add_pod(server, "odd", 2, nodeName="n0", **LATER)
        async with watching(server, tmp_path) as (watch, cache):
            await watch.synced()
            add_pod(server, "odd", 3, nodeName="n0", **LATER)
            add_pod(server, "fine", 1)
            await until(lambda: any(one.name == "fine" for one in cache.pods))
            assert watch.reflectors["pods"].problems == {}
        (said,) = warnings(capsys)
        assert (said["event"], said["pod"], said["node"]) == (
            "a pod cannot be read in full",
            "default/odd",
            "n0",
        )
        assert PROBLEM in said["problem"]

    play(story)


# Pods that are being resized


def resized(asked: str, promised: str, name: str = "big", held: str = "1Gi", **more: Any) -> LivePod:
    amounts = {"cpu": promised, "memory": held}
    told = {
        "name": "app",
        "allocatedResources": amounts,
        "resources": {"limits": amounts, "requests": amounts},
    }
    return decode(
        raw(pod_object(name, cpu=asked, uid=name, node="n1", status={"containerStatuses": [told], **more}))
    )


def test_what_a_pod_gives_back_is_not_free_before_its_kubelet_says_so() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    cache.put_pod(resized("1", "3"))
    assert cache.engine.cluster.by_name["n1"].load.used["cpu"] == 3000
    assert free_cpus(cache) == "4-7"
    cache.put_pod(resized("1", "1"))
    assert cache.engine.cluster.by_name["n1"].load.used["cpu"] == 1000


def test_a_shared_pod_that_grows_counts_with_what_it_is_to_have() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    cache.put_pod(resized("6", "2", qosClass="Burstable"))
    assert cache.engine.cluster.by_name["n1"].load.used["cpu"] == 6000


def test_a_pinned_pod_that_is_to_grow_stays_what_it_is_as_its_kubelet_will_say() -> None:
    node = fresh()
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    cache.put_pod(resized("6", "2"))
    assert cache.engine.cluster.by_name["n1"].load.used["cpu"] == 2000
    assert free_cpus(cache) == "3-7"


@pytest.mark.parametrize(
    ("changes", "counted"),
    [
        ({"feature_gates": (("InPlacePodVerticalScalingExclusiveCPUs", True),)}, 6000),
        ({"cpu_policy": "none", "memory_policy": "None"}, 6000),
    ],
)
def test_a_kubelet_that_would_try_it_is_believed_to(changes: dict[str, Any], counted: int) -> None:
    node = Node.fresh(machine(2, 4), replace(config("restricted"), **changes))
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    cache.put_pod(resized("6", "2"))
    assert cache.engine.cluster.by_name["n1"].load.used["cpu"] == counted


@pytest.mark.parametrize(("version", "counted"), [("v1.33.2", GI // 2), ("v1.35.0", GI)])
def test_memory_counts_where_only_cpus_are_pinned(version: str, counted: int) -> None:
    node = Node.fresh(
        machine(2, 4),
        replace(config("restricted"), version=version, memory_policy="None", reserved_memory=()),
    )
    cache = cache_of(live_node(node))
    cache.put_report(complete(node))
    cache.put_pod(resized("2", "2", held="512Mi"))
    assert cache.engine.cluster.by_name["n1"].load.used["memory"] == counted
