"""Watches of a whole cluster: what is waited for, and what is said when something cannot be read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kube.fake_api_server import FakeApiServer, fake_api_server, until
from numaware.diagnose.reason import Reason
from numaware.kube.client import Client
from numaware.kube.config import connect
from numaware.kube.resources import (
    DEFINITIONS,
    DEVICE_CLASSES,
    NAMESPACES,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    NUMATOPOLOGIES,
    PODS,
    REPLICA_SETS,
    RESOURCE_CLAIMS,
    SERVICES,
)
from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import UNKNOWN_NAMESPACES, Engine
from numaware.serve import logs
from numaware.serve.cluster_cache import ClusterCache
from numaware.serve.dra_watch import DraFeed
from numaware.serve.watches import ClusterWatch, look
from numaware.workload.dra.objects import DeviceClass
from support.live_cluster import add_node, add_pod, kubeconfig
from support.live_pods import live_node
from support.small_clusters import gpu_node


class Woken:
    """A listener that writes down which nodes it is told of."""

    def __init__(self) -> None:
        self.nodes: list[set[str]] = []

    def pod_changed(self, uid: str, pod: object) -> None: ...

    def nodes_changed(self, names: Any) -> None:
        self.nodes.append(set(names))

    def volumes_changed(self, uids: Any) -> None: ...


def play(story: Callable[[FakeApiServer], Awaitable[None]]) -> None:
    async def run() -> None:
        async with fake_api_server() as server:
            await story(server)

    asyncio.run(run())


def new_cache() -> ClusterCache:
    return ClusterCache(Engine(Cluster((), knows_namespaces=False)), lambda: 0.0)


@asynccontextmanager
async def watching(
    server: FakeApiServer, folder: Path, *listeners: Woken
) -> AsyncIterator[tuple[ClusterWatch, ClusterCache]]:
    logs.set_up("json")
    cache = new_cache()
    async with Client(await connect(kubeconfig(server, folder), None)) as client:
        live = ClusterWatch(client, cache, listeners, lambda: 0.0, decides=True)
        task = asyncio.create_task(live.run())
        try:
            yield live, cache
        finally:
            task.cancel()
            await asyncio.wait((task,))


def warnings(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    lines = (json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{"))
    return [line for line in lines if line["level"] == "warning"]


def beside(chosen: dict[str, Any]) -> dict[str, Any]:
    """Never on a node with a web server of a namespace that is chosen by its labels."""
    term = {
        "topologyKey": "host",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "namespaceSelector": chosen,
    }
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def refused_because(cache: ClusterCache, name: str) -> list[Reason]:
    (pod,) = [one.pod for one in cache.pods if one.name == name]
    return [reason for reason, _ in cache.engine.decide(pod).reasons]


def test_who_may_not_read_namespaces_goes_on_without_and_only_those_who_ask_wait(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story(server: FakeApiServer) -> None:
        add_node(server, "n0", gpu_node())
        add_pod(server, "asks", 2, **beside({"matchLabels": {"team": "red"}}))
        add_pod(server, "takes-all", 2, **beside({}))
        server.forbidden.add(NAMESPACES.path())
        woken = Woken()
        async with watching(server, tmp_path, woken) as (live, cache):
            await live.synced()
            assert live.unready() == ""
            assert refused_because(cache, "asks") == [UNKNOWN_NAMESPACES]
            assert cache.engine.decide(next(one.pod for one in cache.pods if one.name == "takes-all")).node
            await until(lambda: live.reflectors["namespaces"].in_trouble)
            (said,) = warnings(capsys)
            assert said["event"].startswith("this account may not list and watch namespaces")
            server.forbidden.clear()
            await until(lambda: refused_because(cache, "asks") == [])
            assert {"n0"} in woken.nodes

    play(story)


def test_a_server_that_is_away_is_one_line_however_many_kinds_are_watched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story(server: FakeApiServer) -> None:
        add_node(server, "n0", gpu_node())
        async with watching(server, tmp_path) as (live, _):
            await live.synced()
            await server.stop()
            await until(lambda: all(one.in_trouble for one in live.reflectors.values()))
        said = warnings(capsys)
        assert [line["event"] for line in said] == [
            "the API server does not answer: what is known may be out of date"
        ]

    play(story)


def test_an_object_that_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def story(server: FakeApiServer) -> None:
        server.put(NODES, "odd", status={"allocatable": {"cpu": "many"}})
        async with watching(server, tmp_path) as (live, _):
            await live.synced()
        (said,) = warnings(capsys)
        assert (said["event"], said["kind"], said["object"]) == ("an object cannot be read", "nodes", "odd")

    play(story)


def test_a_look_goes_on_without_namespaces_that_may_not_be_read(tmp_path: Path) -> None:
    async def story(server: FakeApiServer) -> None:
        add_node(server, "n0", gpu_node())
        for forbidden in (True, False):
            if forbidden:
                server.forbidden.add(NAMESPACES.path())
            else:
                server.forbidden.clear()
            cache = new_cache()
            async with Client(await connect(kubeconfig(server, tmp_path), None)) as client:
                problems = await look(client, cache)
            assert problems == []
            assert cache.engine.cluster.placed_pods.knows_namespaces is not forbidden
            assert list(cache.engine.cluster.by_name) == ["n0"]

    play(story)


def test_replicas_are_known_by_services_and_controllers(tmp_path: Path) -> None:
    async def story(server: FakeApiServer) -> None:
        add_node(server, "n0", gpu_node())
        server.put(REPLICA_SETS, "web", "default", spec={"selector": {"matchLabels": {"app": "web"}}})
        owner = {"kind": "ReplicaSet", "name": "web", "uid": "1", "apiVersion": "apps/v1", "controller": True}
        metadata = {
            "name": "web-1",
            "namespace": "default",
            "labels": {"app": "web"},
            "ownerReferences": [owner],
        }
        server.put(PODS, "web-1", "default", metadata=metadata, spec={"containers": [{"name": "app"}]})
        async with watching(server, tmp_path) as (live, cache):
            await live.synced()
            (pod,) = [one.pod for one in cache.pods]
            spread = cache.engine.cluster.selectors.default_spread
            assert [rule.topology_key for rule in spread(pod)] == [
                "kubernetes.io/hostname",
                "topology.kubernetes.io/zone",
            ]
            server.put(SERVICES, "web", "default", spec={"selector": {"app": "web", "tier": "a"}})
            server.remove(REPLICA_SETS, "web", "default")
            await until(lambda: spread(pod) == ())

    play(story)


@pytest.mark.parametrize("volcano", [True, False])
def test_a_look_says_that_nobody_can_publish_unless_volcano_does(volcano: bool, tmp_path: Path) -> None:
    async def story(server: FakeApiServer) -> None:
        add_node(server, "n0", gpu_node())
        server.missing.add(NODE_RESOURCE_TOPOLOGIES.path())
        if volcano:
            server.put(NUMATOPOLOGIES, "n0", spec={})
        async with Client(await connect(kubeconfig(server, tmp_path), None)) as client:
            problems = await look(client, new_cache())
        assert ["kubectl apply -f deploy/crd/noderesourcetopology.yaml" in one for one in problems] == (
            [] if volcano else [True]
        )

    play(story)


def test_a_scheduler_says_that_the_kind_is_missing_and_goes_on_when_it_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story(server: FakeApiServer) -> None:
        add_node(server, "n0", gpu_node())
        server.missing.add(NODE_RESOURCE_TOPOLOGIES.path())
        async with watching(server, tmp_path) as (live, cache):
            await live.synced()
            (said,) = warnings(capsys)
            assert said["event"] == "nothing is known of NUMA nodes"
            assert "kubectl apply -f deploy/crd/noderesourcetopology.yaml" in said["problem"]
            server.missing.clear()
            server.put(
                DEFINITIONS,
                "noderesourcetopologies.topology.node.k8s.io",
                spec={"versions": [{"name": "v1alpha2", "served": True}]},
                status={"conditions": [{"type": "Established", "status": "True"}]},
            )

            def known() -> bool:
                told = cache.knowledge("n0")
                return told is not None and told.level == "complete"

            await until(known)

    play(story)


def test_classes_are_watched_and_a_server_without_them_is_said_to_be_so_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expression = {"cel": {"expression": "device.driver == 'd.io'"}}
    spec = {"extendedResourceName": "d.io/gpu", "selectors": [expression]}
    path = DEVICE_CLASSES.path()

    async def story(server: FakeApiServer) -> None:
        add_node(server, "n0", gpu_node())
        server.put(DEVICE_CLASSES, "gpu", spec=spec)
        woken = Woken()
        async with watching(server, tmp_path, woken) as (live, cache):
            await live.synced()
            assert cache.engine.cluster.dra.serves("d.io/gpu") == ("gpu",)
            # Slices and claims are for those who show them.
            assert not [where for _, where, _ in server.calls if "resourceslices" in where]
        server.missing.add(path)
        async with watching(server, tmp_path) as (live, cache):
            await live.synced()
            assert cache.engine.cluster.dra.serves("d.io/gpu") == ()

    play(story)
    assert capsys.readouterr().err.count("nothing is known of devices that come by DRA") == 1


def test_whoever_may_not_look_at_dra_is_told_so_by_the_pods_that_have_it(tmp_path: Path) -> None:
    async def story(server: FakeApiServer) -> None:
        add_node(server, "n0", gpu_node())
        server.forbidden.add(RESOURCE_CLAIMS.path())
        cache = new_cache()
        async with Client(await connect(kubeconfig(server, tmp_path), None)) as client:
            assert await look(client, cache) == []
        assert cache.engine.cluster.dra.hidden

    play(story)


def test_what_nodes_say_is_another_when_a_class_comes_or_goes_and_not_when_its_selectors_change() -> None:
    cache = new_cache()
    cache.put_node(live_node("n0", gpu_node()))
    cluster, feed = cache.engine.cluster, DraFeed(cache)
    seen = cluster.serial
    one = DeviceClass("gpu", "d.io/gpu")
    assert feed.put(None, one) == {"n0"}
    assert list(cluster.changed_since(seen)) == ["n0"]
    seen = cluster.serial
    assert not feed.put(one, other := replace(one, drivers=("d.io",)))
    assert not list(cluster.changed_since(seen))
    assert feed.put(other, None) == {"n0"}
    assert list(cluster.changed_since(seen)) == ["n0"]
