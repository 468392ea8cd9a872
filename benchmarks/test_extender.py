"""How long another scheduler waits for the extender: filter and prioritize for 5,000 nodes, over HTTP; run by `make bench`.

Each pod is asked about and then bound to one of the best nodes, so that every question finds a cluster that has changed.
All work is done in this process, one thing after the other, so CPU time is what kube-scheduler would wait on a machine that
has nothing else to do; what passed on the clock is told beside it.
"""

from __future__ import annotations

import http.client
import itertools
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import msgspec
import pytest
from starlette.applications import Starlette

from e2e import load
from e2e.fake_kubelet import FakeKubelet
from e2e.fake_objects import node_object
from e2e.loop_thread import LoopThread
from numaware.kube import nodes, pods
from numaware.kube.topology.report import Report
from numaware.serve.cluster_cache import ClusterCache
from numaware.serve.extender import Extender
from numaware.serve.metrics import Metrics
from numaware.serve.scheduler import Bound
from numaware.web import serving
from support.cache_world import cache_of, complete

NODES = 5_000


class _Binder:
    async def bind(self, *_: object, **__: object) -> Bound:
        return "bound"


class _Server(LoopThread):
    """The extender on a cluster of empty nodes."""

    def __init__(self) -> None:
        super().__init__("extender")
        self.port = 0
        self.objects: list[dict[str, Any]] = []
        self._cache = _full_cache(self.objects)
        self._metrics = Metrics()

    def tell(self, raw: bytes) -> None:
        """A pod is new."""
        pod = pods.decode(raw)
        self._ask(lambda: self._cache.put_pod(pod))

    async def _live(self) -> None:
        extender = Extender(self._cache, _Binder(), self._metrics)
        async with serving(Starlette(routes=extender.routes()), "127.0.0.1:0") as address:
            self.port = int(address.rpartition(":")[2])
            await self._until_stopped()


def _full_cache(objects: list[dict[str, Any]]) -> ClusterCache:
    cache = cache_of()
    reports: dict[str, Report] = {}
    for spec in load.nodes(NODES):
        kubelet = FakeKubelet(spec)
        kind = dict(spec.labels)["kind"]
        objects.append(node_object(kubelet))
        cache.put_node(nodes.decode(msgspec.json.encode(objects[-1])))
        if kind not in reports:
            reports[kind] = complete(kubelet.twin, spec.name)
        cache.put_report(msgspec.structs.replace(reports[kind], node=spec.name))
    return cache


@pytest.fixture(scope="module")
def server() -> Iterator[_Server]:
    with _Server() as started:
        yield started


class Asked(NamedTuple):
    """Seconds that filter and prioritize took for one pod, on the clock and of CPU time."""

    wall: float
    cpu: float


class _Scheduler:
    """Asks as kube-scheduler does, over one connection."""

    def __init__(self, server: _Server, *, whole: bool) -> None:
        self._server = server
        self._whole = whole
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self._names = [one["metadata"]["name"] for one in server.objects]
        self._objects = {one["metadata"]["name"]: one for one in server.objects}

    def schedule(self, pod: dict[str, Any]) -> Asked:
        raw = msgspec.json.encode(pod)
        self._server.tell(raw)
        asked = msgspec.json.encode({"Pod": msgspec.Raw(raw), **self._nodes(self._names)})
        began, spent = time.perf_counter(), time.process_time()
        answer = self._post("filter", asked)
        first = Asked(time.perf_counter() - began, time.process_time() - spent)
        told = msgspec.json.decode(answer)
        kept = (
            [one["metadata"]["name"] for one in told["Nodes"]["items"]] if self._whole else told["NodeNames"]
        )
        again = msgspec.json.encode({"Pod": msgspec.Raw(raw), **self._nodes(kept)})
        began, spent = time.perf_counter(), time.process_time()
        answer = self._post("prioritize", again)
        second = Asked(time.perf_counter() - began, time.process_time() - spent)
        scores = {one["Host"]: one["Score"] for one in msgspec.json.decode(answer)}
        metadata = pod["metadata"]
        told = msgspec.json.decode(
            self._post(
                "bind",
                msgspec.json.encode(
                    {
                        "PodName": metadata["name"],
                        "PodNamespace": metadata["namespace"],
                        "PodUID": metadata["uid"],
                        "Node": max(scores, key=lambda name: (scores[name], name)),
                    }
                ),
            )
        )
        assert told["Error"] == ""
        return Asked(first.wall + second.wall, first.cpu + second.cpu)

    def close(self) -> None:
        self._connection.close()

    def _nodes(self, names: list[str]) -> dict[str, Any]:
        if not self._whole:
            return {"NodeNames": names, "Nodes": None}
        return {
            "NodeNames": None,
            "Nodes": {"metadata": {}, "items": [self._objects[name] for name in names]},
        }

    def _post(self, verb: str, body: bytes) -> bytes:
        self._connection.request("POST", f"/extender/{verb}", body, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        answer = response.read()
        assert response.status == 200, answer
        return answer


@pytest.mark.parametrize(
    ("form", "warm_up", "asked", "most"), [("names", 100, 500, 0.050), ("objects", 10, 50, None)]
)
def test_filter_and_prioritize_for_5000_nodes_take_less_than_50_ms(
    server: _Server, request: pytest.FixtureRequest, form: str, warm_up: int, asked: int, most: float | None
) -> None:
    """Whole objects (nodeCacheCapable: false) are megabytes with every question, and are only told of, not judged."""
    with closing(_Scheduler(server, whole=form == "objects")) as scheduler:
        # Every kind of pod has then been seen, and most kinds of nodes.
        for pod in itertools.islice(_pods(f"warm-{form}"), warm_up):
            scheduler.schedule(pod)
        found = [scheduler.schedule(pod) for pod in itertools.islice(_pods(form), asked)]
    wall, cpu = sorted(one.wall for one in found), sorted(one.cpu for one in found)
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print()
        for name, seconds in (("clock", wall), ("CPU", cpu)):
            median, p99, worst = (seconds[min(asked - 1, asked * part // 100)] for part in (50, 99, 100))
            print(
                f"extender, {NODES:,} nodes as {form}, filter + prioritize, {name}: median {1000 * median:.1f} ms, "
                f"p99 {1000 * p99:.1f} ms, worst {1000 * worst:.1f} ms"
            )
    if most is not None:
        assert cpu[asked * 99 // 100] < most


def _pods(prefix: str) -> Iterator[dict[str, Any]]:
    for pod in load.pods(5_000, prefix=prefix):
        pod["metadata"]["uid"] = pod["metadata"]["name"]
        yield pod
