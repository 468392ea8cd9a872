from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from kube.fake_api_server import until
from numaware.kube import pods
from numaware.kube.pods import LivePod
from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Engine
from numaware.schedule.ledger import PREDICTED
from numaware.serve.authentication import TokenAuthentication
from numaware.serve.cluster_cache import ClusterCache
from numaware.serve.extender import MOST_BYTES, MOST_WITH_NODES, Extender, Unknown, application
from numaware.serve.guard import LOOPBACK
from numaware.serve.metrics import Metrics
from numaware.serve.scheduler import Bound
from numaware.twin.node import Node
from numaware.web import serving
from numaware.workload.dra.objects import DeviceClass
from support.live_pods import complete, live, live_node
from support.small_clusters import gpu_node
from support.twin_nodes import GPU, pod


class FakeBinder:
    def __init__(self) -> None:
        self.outcome: Bound = "bound"
        self.bound: list[tuple[str, str, dict[str, str]]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def bind(self, pod: LivePod, node: str, annotations: dict[str, str]) -> Bound:
        self.bound.append((pod.name, node, annotations))
        await self.gate.wait()
        return self.outcome


class Ask(Protocol):
    def __call__(self, path: str, body: object, **headers: str) -> Awaitable[tuple[int, Any]]: ...


TOKEN = str(uuid.UUID(int=18))


class Scene:
    """An extender on a few nodes called n0, n1, ...; a node of None is one that nobody publishes anything of."""

    def __init__(self, *nodes: Node | None, unknown: Unknown = "pass") -> None:
        self.now = 0.0
        self.binder = FakeBinder()
        self.cache = ClusterCache(Engine(Cluster(())), lambda: self.now)
        for number, node in enumerate(nodes):
            self.cache.put_node(live_node(f"n{number}", node or gpu_node()))
            if node is not None:
                self.cache.put_report(complete(f"n{number}", node))
        self.extender = Extender(self.cache, self.binder, Metrics(), unknown=unknown, clock=lambda: self.now)

    def play(self, story: Callable[[Ask], Awaitable[None]]) -> None:
        async def run() -> None:
            gate = TokenAuthentication(TOKEN)
            app = application(self.extender.routes(), (), names=LOOPBACK, gate=gate)
            async with serving(app, "127.0.0.1:0") as address, aiohttp.ClientSession(address) as session:

                async def ask(path: str, body: object, **headers: str) -> tuple[int, Any]:
                    sent = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
                    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
                    data = body if isinstance(body, bytes) else json.dumps(body)
                    async with session.post(path, data=data, headers=sent) as answer:
                        return answer.status, await answer.json(content_type=None)

                await story(ask)

        asyncio.run(run())


def wire(name: str, cpus: int, **metadata: str) -> dict[str, Any]:
    """A Guaranteed pod as another scheduler sends it."""
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, **metadata},
        "spec": {"containers": [{"name": "c", "resources": _of(cpus)}]},
    }


def _of(cpus: int) -> dict[str, Any]:
    amounts = {"cpu": str(cpus), "memory": "1Gi"}
    return {"limits": amounts, "requests": amounts}


def node_object(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"zone": "z"}}, "status": {"capacity": {"cpu": "16"}}}


def test_nodes_whose_kubelet_would_refuse_are_filtered_out_with_the_reason() -> None:
    async def story(ask: Ask) -> None:
        status, told = await ask(
            "/extender/filter", {"Pod": wire("a", 12), "Nodes": None, "NodeNames": ["n0", "n1"]}
        )
        assert status == 200
        assert told["NodeNames"] == ["n1"]
        assert told["Nodes"] is None
        assert told["FailedNodes"] == {
            "n0": "numaware: node(s) could not align the pod on NUMA nodes (single-numa-node)"
        }
        assert told["Error"] == ""

    Scene(gpu_node("single-numa-node"), gpu_node("none")).play(story)


def test_whole_node_objects_come_back_as_they_were_sent() -> None:
    async def story(ask: Ask) -> None:
        sent = {"items": [node_object("n0"), node_object("n1")]}
        _, told = await ask("/extender/filter", {"Pod": wire("a", 12), "Nodes": sent, "NodeNames": None})
        assert told["NodeNames"] is None
        assert told["Nodes"]["items"] == [node_object("n1")]

    Scene(gpu_node("single-numa-node"), gpu_node("none")).play(story)


def test_keys_in_the_case_of_old_releases_are_understood() -> None:
    async def story(ask: Ask) -> None:
        _, told = await ask("/extender/filter", {"pod": wire("a", 4), "nodenames": ["n0"]})
        assert told["NodeNames"] == ["n0"]

    Scene(gpu_node()).play(story)


def test_the_best_place_gets_ten_points_and_a_refused_one_none() -> None:
    async def story(ask: Ask) -> None:
        names = ["n0", "n1", "n2"]
        _, told = await ask("/extender/prioritize", {"Pod": wire("b", 8), "NodeNames": names})
        scores = {entry["Host"]: entry["Score"] for entry in told}
        assert list(scores) == names
        assert max(scores.values()) == 10
        assert scores["n2"] == 0

    full = gpu_node("single-numa-node").admit(pod("x", 7)).node.admit(pod("y", 8)).node
    Scene(gpu_node("single-numa-node").admit(pod("x", 7)).node, gpu_node(), full).play(story)


def test_scores_are_for_the_pods_that_come() -> None:
    async def story(ask: Ask) -> None:
        async def scores() -> dict[str, int]:
            _, told = await ask("/extender/prioritize", {"Pod": wire("p", 5), "NodeNames": ["n0", "n1"]})
            return {entry["Host"]: entry["Score"] for entry in told}

        # A node that is whole stays whole.
        assert await scores() == {"n0": 10, "n1": 0}
        for number in range(4):
            large = wire(f"large-{number}", 8)
            large["spec"]["containers"][0]["resources"]["limits"][GPU] = "1"
            await ask("/extender/filter", {"Pod": large, "NodeNames": ["n0"]})
        assert await scores() == {"n0": 0, "n1": 10}

    # On n0 the pod would have to go where eight CPUs are still free beside each other.
    Scene(gpu_node("single-numa-node").admit(pod("x", 5)).node, gpu_node("single-numa-node")).play(story)


def test_a_pod_that_is_asked_about_again_has_come_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(gpu_node())
    learned: list[str] = []
    monkeypatch.setattr(scene.cache.engine, "learn", lambda pod: learned.append(pod.name))

    async def story(ask: Ask) -> None:
        for name in ("a", "a", "b", "a"):
            await ask("/extender/filter", {"Pod": wire(name, 4), "NodeNames": ["n0"]})
        node = {"Name": "n0"}
        for name in ("b", "c", "c"):
            await ask("/volcano/predicate", {"task": {"Pod": wire(name, 4)}, "node": node})

    scene.play(story)
    assert learned == ["a", "b", "c"]


def test_a_bind_carries_the_prediction_and_the_next_question_knows_of_it() -> None:
    scene = Scene(gpu_node("single-numa-node"))
    for name in "ab":
        scene.cache.put_pod(live(pod(name, 7)))

    async def story(ask: Ask) -> None:
        body = {"PodName": "a", "PodNamespace": "default", "PodUID": "a", "Node": "n0"}
        assert await ask("/extender/bind", body) == (200, {"Error": ""})
        assert scene.binder.bound[0][:2] == ("a", "n0")
        assert '"cpus":"1-7"' in scene.binder.bound[0][2][PREDICTED]
        _, told = await ask("/extender/filter", {"Pod": wire("c", 9), "NodeNames": ["n0"]})
        assert told["NodeNames"] == []

    scene.play(story)


def test_a_place_that_is_gone_by_the_time_of_the_bind_is_an_error_and_binds_nothing() -> None:
    scene = Scene(gpu_node("single-numa-node"))
    scene.cache.put_pod(live(pod("a", 12)))

    async def story(ask: Ask) -> None:
        body = {"PodName": "a", "PodNamespace": "default", "PodUID": "a", "Node": "n0"}
        _, told = await ask("/extender/bind", body)
        assert told["Error"].startswith("node n0 would refuse the pod by now: ")

    scene.play(story)
    assert scene.binder.bound == []


def test_a_bind_that_failed_gives_back_what_was_put_aside() -> None:
    scene = Scene(gpu_node())
    scene.binder.outcome = "failed"
    scene.cache.put_pod(live(pod("a", 4)))

    async def story(ask: Ask) -> None:
        body = {"PodName": "a", "PodNamespace": "default", "PodUID": "a", "Node": "n0"}
        _, told = await ask("/extender/bind", body)
        assert told["Error"] == "pod default/a could not be bound to n0: failed"

    scene.play(story)
    assert scene.cache.engine.cluster.where == {}


def test_a_scheduler_that_asks_again_while_the_bind_is_under_way_hears_what_becomes_of_it() -> None:
    scene = Scene(gpu_node(), gpu_node())
    scene.cache.put_pod(live(pod("a", 4)))
    scene.binder.gate = asyncio.Event()

    async def story(ask: Ask) -> None:
        body = {"PodName": "a", "PodNamespace": "default", "PodUID": "a"}
        calls = [ask("/extender/bind", {**body, "Node": node}) for node in ("n0", "n0", "n1")]
        asyncio.get_running_loop().call_later(1.0, scene.binder.gate.set)
        first, again, elsewhere = [told["Error"] for _, told in await asyncio.gather(*calls)]
        assert (first, again) == ("", "")
        assert elsewhere == "pod default/a is on n0 already"

    scene.play(story)
    assert [node for _, node, _ in scene.binder.bound] == ["n0"]


@pytest.mark.parametrize("asked_again", [False, True])
def test_a_bind_that_nobody_waits_for_any_more_is_not_sent(
    asked_again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another kube-scheduler may lead by then, and has an extender of its own that knows nothing of it."""
    scene = Scene(gpu_node())
    for name in "ab":
        scene.cache.put_pod(live(pod(name, 4)))
    scene.binder.gate = asyncio.Event()
    asked: list[str] = []
    known = scene.cache.pod

    def pod_of(uid: str) -> LivePod | None:
        asked.append(uid)
        return known(uid)

    monkeypatch.setattr(scene.cache, "pod", pod_of)

    async def story(ask: Ask) -> None:
        async def bind(name: str) -> str:
            body = {"PodName": name, "PodNamespace": "default", "PodUID": name, "Node": "n0"}
            told: dict[str, str] = (await ask("/extender/bind", body))[1]
            return told["Error"]

        calls = []
        for at, name in ((0, "a"), (0, "b"), (4, "b" if asked_again else "a")):
            scene.now = at
            calls.append(asyncio.create_task(bind(name)))
            await until(lambda: len(asked) == len(calls))
        scene.now = 6
        scene.binder.gate.set()
        late = "pod default/b waited too long for its turn on n0, and was not bound"
        assert await asyncio.gather(*calls) == ["", "" if asked_again else late, ""]

    scene.play(story)
    assert [name for name, *_ in scene.binder.bound] == (["a", "b"] if asked_again else ["a"])
    assert ("b" in scene.cache.engine.cluster.where) is asked_again


def test_a_pod_that_was_bound_stays_where_it_is_before_the_watch_shows_it() -> None:
    scene = Scene(gpu_node(), gpu_node())
    scene.cache.put_pod(live(pod("a", 4)))

    async def story(ask: Ask) -> None:
        body = {"PodName": "a", "PodNamespace": "default", "PodUID": "a"}
        told = [
            (await ask("/extender/bind", {**body, "Node": node}))[1]["Error"] for node in ("n0", "n1", "n0")
        ]
        assert told == ["", "pod default/a is on n0 already", ""]

    scene.play(story)
    assert [node for _, node, _ in scene.binder.bound] == ["n0"]
    assert scene.cache.engine.cluster.where["a"].name == "n0"


def test_a_pod_that_the_watch_brings_a_moment_later_is_bound() -> None:
    scene = Scene(gpu_node())
    scene.cache.put_pod(live(pod("a", 7)))

    async def story(ask: Ask) -> None:
        asyncio.get_running_loop().call_later(0.2, lambda: scene.cache.put_pod(live(pod("a", 4))))
        body = {"PodName": "a", "PodNamespace": "default", "PodUID": "a", "Node": "n0"}
        assert (await ask("/extender/bind", body))[1]["Error"] == ""

    scene.play(story)
    assert [node for _, node, _ in scene.binder.bound] == ["n0"]


def test_a_pod_that_nobody_has_heard_of_is_not_bound() -> None:
    async def story(ask: Ask) -> None:
        body = {"PodName": "a", "PodNamespace": "default", "PodUID": "x", "Node": "n0"}
        _, told = await ask("/extender/bind", body)
        assert "has not heard of" in told["Error"]

    Scene(gpu_node()).play(story)


@pytest.mark.parametrize(("unknown", "taken"), [("pass", ["n0", "stranger"]), ("refuse", [])])
def test_nodes_that_nobody_publishes_pass_or_are_refused_as_the_user_says(
    unknown: Unknown, taken: list[str]
) -> None:
    async def story(ask: Ask) -> None:
        _, told = await ask("/extender/filter", {"Pod": wire("a", 4), "NodeNames": ["n0", "stranger"]})
        assert told["NodeNames"] == taken

    Scene(None, unknown=unknown).play(story)


# Volcano


def task(name: str, cpus: int, node: str = "") -> dict[str, Any]:
    return {"UID": name, "Name": name, "NodeName": node, "Pod": wire(name, cpus)}


def test_volcano_hears_whether_a_node_takes_a_task() -> None:
    async def story(ask: Ask) -> None:
        _, yes = await ask("/volcano/predicate", {"task": task("a", 4), "node": {"Name": "n0"}})
        assert yes == {"status": "", "code": 0}
        _, no = await ask("/volcano/predicate", {"task": task("a", 12), "node": {"Name": "n0"}})
        assert no["code"] == 2
        assert "single-numa-node" in no["status"]

    Scene(gpu_node("single-numa-node")).play(story)


def test_volcano_gets_a_score_for_every_node() -> None:
    async def story(ask: Ask) -> None:
        nodes = [{"Name": "n0"}, {"Name": "n1"}]
        _, told = await ask("/volcano/prioritize", {"task": task("a", 4), "nodes": nodes})
        assert told["errorMessage"] == ""
        assert sorted(told["nodeScore"]) == ["n0", "n1"]
        assert max(told["nodeScore"].values()) == 100.0

    Scene(gpu_node(), gpu_node()).play(story)


def test_what_volcano_allocates_is_taken_and_what_it_takes_back_is_free() -> None:
    scene = Scene(gpu_node("single-numa-node"))
    scene.cache.put_pod(live(pod("a", 7)))

    async def story(ask: Ask) -> None:
        question = {"task": task("b", 9), "node": {"Name": "n0"}}
        assert (await ask("/volcano/allocate", {"task": task("a", 7, "n0")}))[1] == {"errorMessage": ""}
        assert (await ask("/volcano/predicate", question))[1]["code"] == 2
        assert (await ask("/volcano/deallocate", {"task": task("a", 7, "n0")}))[1] == {"errorMessage": ""}
        assert scene.cache.engine.cluster.where == {}

    scene.play(story)


def test_an_allocation_that_is_never_bound_is_forgotten() -> None:
    scene = Scene(gpu_node())
    scene.cache.put_pod(live(pod("a", 7)))

    async def story(ask: Ask) -> None:
        await ask("/volcano/allocate", {"task": task("a", 7, "n0")})
        scene.now = 59
        scene.extender.expire()
        assert list(scene.cache.engine.cluster.where) == ["a"]
        scene.now = 61
        scene.extender.expire()

    scene.play(story)
    assert scene.cache.engine.cluster.where == {}


def test_an_allocation_that_was_bound_stays() -> None:
    scene = Scene(gpu_node())

    async def story(ask: Ask) -> None:
        await ask("/volcano/allocate", {"task": task("a", 7, "n0")})
        scene.cache.put_pod(live(pod("a", 7), node="n0"))
        scene.now = 1000
        scene.extender.expire()

    scene.play(story)
    assert list(scene.cache.engine.cluster.where) == ["a"]


def test_a_pod_that_nobody_has_heard_of_is_not_put_on_the_books() -> None:
    scene = Scene(gpu_node())

    async def story(ask: Ask) -> None:
        _, told = await ask("/volcano/allocate", {"task": task("made-up", 7, "n0")})
        assert "has not heard of" in told["errorMessage"]

    scene.play(story)
    assert scene.cache.engine.cluster.where == {}


# Who may ask

BIND = {"PodName": "a", "PodNamespace": "default", "PodUID": "a", "Node": "n0"}
STRANGERS = {
    "a name that was bound to loopback": ({"host": "evil.example"}, 421),
    "a name that begins like ours": ({"host": "localhost.evil.example"}, 421),
    "another site's page": ({"origin": "http://evil.example"}, 403),
    "another site's page, told by the browser": ({"sec_fetch_site": "cross-site"}, 403),
    "a form": ({"content_type": "text/plain"}, 415),
    "something compressed": ({"content_encoding": "gzip"}, 415),
    "no token": ({"authorization": ""}, 401),
    "another token": ({"authorization": "Bearer another-extender-f"}, 401),
    "a token that is no password": ({"authorization": "Basic !"}, 401),
}


@pytest.mark.parametrize(("headers", "status"), STRANGERS.values(), ids=STRANGERS)
@pytest.mark.parametrize("path", ["/extender/bind", "/extender/filter", "/volcano/allocate"])
def test_strangers_are_turned_away_and_bind_nothing(path: str, headers: dict[str, str], status: int) -> None:
    scene = Scene(gpu_node())
    scene.cache.put_pod(live(pod("a", 4)))

    async def story(ask: Ask) -> None:
        body = {**BIND, "task": task("a", 4, "n0"), "Pod": wire("a", 4), "NodeNames": ["n0"]}
        assert (await ask(path, body, **headers))[0] == status

    scene.play(story)
    assert scene.binder.bound == []
    assert scene.cache.engine.cluster.where == {}


def test_every_bind_is_logged_with_who_asked_for_it() -> None:
    scene = Scene(gpu_node())
    scene.cache.put_pod(live(pod("a", 4)))
    scene.cache.put_pod(live(pod("b", 4)))

    async def story(ask: Ask) -> None:
        await ask("/extender/bind", BIND)
        await ask("/extender/bind", {**BIND, "Node": "n9"})
        await ask("/volcano/allocate", {"task": task("b", 4, "n0")})

    with capture_logs([merge_contextvars]) as logs:
        scene.play(story)
    assert [(line["event"], line["pod"], line["by"], line["log_level"]) for line in logs] == [
        ("bind", "default/a", "127.0.0.1", "info"),
        ("bind", "default/a", "127.0.0.1", "warning"),
        ("allocate", "default/b", "127.0.0.1", "info"),
    ]


@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("/extender/bind", MOST_BYTES),
        ("/volcano/allocate", MOST_BYTES),
        ("/extender/filter", MOST_WITH_NODES),
    ],
)
def test_a_body_is_bounded_by_what_its_question_needs(path: str, most: int) -> None:
    app = application(Scene(gpu_node()).extender.routes(), (), names=LOOPBACK, gate=None)
    caller = TestClient(app, base_url="http://127.0.0.1")

    def status(length: int) -> int:
        headers = {"content-type": "application/json", "content-length": str(length)}
        return caller.post(path, content=b"{}", headers=headers).status_code

    assert (status(most), status(most + 1)) == (400, 413)


def test_a_question_about_5000_nodes_is_answered() -> None:
    async def story(ask: Ask) -> None:
        names = [f"{'n' * 120}{number}" for number in range(5000)]
        assert (await ask("/extender/filter", {"Pod": wire("a", 4), "NodeNames": names}))[0] == 200

    Scene(gpu_node()).play(story)


# Other programs' input

PATHS = ["filter", "prioritize", "bind"]
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["Pod", "NodeNames", "Nodes", "items", "metadata", "spec", "task", "node", "Name"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=10, deadline=None)
@given(st.lists(JUNK, min_size=10, max_size=10), st.binary(max_size=40))
def test_no_request_is_answered_with_a_crash(bodies: list[Any], noise: bytes) -> None:
    async def story(ask: Ask) -> None:
        for path in (
            *(f"/extender/{verb}" for verb in PATHS),
            *(f"/volcano/{verb}" for verb in ("predicate", "prioritize", "allocate", "deallocate")),
        ):
            for body in (*bodies, noise, b'{"Pod":' + b"[" * 5000):
                status, told = await ask(path, body)
                assert status in (200, 400), (path, body, told)

    Scene(gpu_node()).play(story)


# Devices that come by DRA


def test_a_pod_with_claims_is_filtered_scored_and_bound_by_all_the_rest() -> None:
    scene = Scene(gpu_node(), None)
    scene.cache.engine.cluster.dra.put(DeviceClass("gpu", "d.io/gpu", ("d.io",)))
    claims = {"resourceClaims": [{"name": "claim", "resourceClaimName": "c"}]}

    def with_dra(name: str, cpus: int) -> dict[str, Any]:
        sent = wire(name, cpus)
        (container,) = sent["spec"]["containers"]
        container["resources"]["limits"]["d.io/gpu"] = "1"
        return {**sent, "spec": {**sent["spec"], **claims}}

    async def story(ask: Ask) -> None:
        names = {"NodeNames": ["n0"]}
        _, told = await ask("/extender/filter", {"Pod": with_dra("fits", 4), **names})
        assert told["NodeNames"] == ["n0"]
        _, told = await ask("/extender/filter", {"Pod": with_dra("large", 400), **names})
        assert told["NodeNames"] == []
        assert "DRA" not in told["FailedNodes"]["n0"]
        _, scores = await ask("/extender/prioritize", {"Pod": with_dra("fits", 4), **names})
        assert scores == [{"Host": "n0", "Score": 10}]
        scene.cache.put_pod(pods.decode(json.dumps(with_dra("fits", 4)).encode()))
        body = {"PodName": "fits", "PodNamespace": "default", "PodUID": "fits", "Node": "n0"}
        with capture_logs() as lines:
            _, told = await ask("/extender/bind", body)
        assert told["Error"] == ""
        (line,) = [line for line in lines if line["event"] == "bind"]
        # Whoever wonders later who chose the devices finds it there.
        assert line["by_dra"] == ["claim", "d.io/gpu"]

    scene.play(story)
