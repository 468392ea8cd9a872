"""Our client on a real API server: what the fake one in the unit tests only imitates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from e2e.control_plane import ControlPlane
from e2e.proxy import FaultyProxy, is_bind, is_watch
from kube.fake_api_server import until
from numaware.errors import InputError
from numaware.kube.client import Client
from numaware.kube.config import connect
from numaware.kube.errors import ApiError
from numaware.kube.events import EventWriter, Subject
from numaware.kube.lease import Election, LeaseTimes
from numaware.kube.reflector import Reflector
from numaware.kube.resources import (
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    Resource,
)

pytestmark = pytest.mark.e2e

CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False)


def run(kubeconfig: Path, story: Callable[[Client], Awaitable[None]]) -> None:
    async def play() -> None:
        async with Client(await connect(str(kubeconfig))) as client:
            await story(client)

    asyncio.run(play())


def shows(reflector: Reflector[str], key: str, text: str) -> bool:
    return reflector.items.get(key) == text


def value(raw: bytes) -> str:
    return str(msgspec.json.decode(raw).get("data", {}).get("value", ""))


@asynccontextmanager
async def reflecting(
    client: Client, resource: Resource, **options: Any
) -> AsyncGenerator[Reflector[str], None]:
    reflector = Reflector(client, resource, value, **options)
    task = asyncio.create_task(reflector.run())
    try:
        await reflector.synced.wait()
        yield reflector
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def write(client: Client, name: str, text: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": text}}
    await client.apply(CONFIG_MAPS, name, body, "default", manager="e2e")


def make_pods(plane: ControlPlane, *names: str) -> list[str]:
    """Pods that no scheduler looks at, and their uids."""
    made = [
        plane.api().create(
            "/api/v1/namespaces/default/pods",
            {
                "metadata": {"name": name},
                "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]},
            },
        )
        for name in names
    ]
    return [pod["metadata"]["uid"] for pod in made]


def test_the_server_tells_its_version_and_strangers_learn_in_one_line_that_they_are_none(
    plane: ControlPlane, tmp_path: Path
) -> None:
    async def story(client: Client) -> None:
        assert (await client.server_version()).startswith("v1.")

    run(plane.kubeconfig("stranger"), story)
    known = plane.kubeconfig("stranger").read_text(encoding="utf-8")
    wrong = tmp_path / "wrong"
    wrong.write_text(known.replace(plane.token("stranger"), "not-a-token"), encoding="utf-8")
    unverified = tmp_path / "unverified"
    unverified.write_text(
        known.replace(f"certificate-authority: {plane.ca}", "tls-server-name: 127.0.0.1"), encoding="utf-8"
    )
    for path, why in ((wrong, "Unauthorized"), (unverified, "is not trusted")):
        with pytest.raises(InputError, match=why) as caught:
            run(path, story)
        assert "\n" not in str(caught.value)
        assert "not-a-token" not in str(caught.value)


def test_lists_come_in_pages_of_one_version_and_a_watch_resumes_after_each_cut(plane: ControlPlane) -> None:
    async def story(client: Client) -> None:
        for number in range(7):
            await write(client, f"map-{number}", "old")
        pages = [page async for page in client.list(CONFIG_MAPS, "default", limit=3)]
        assert sum(len(page.items) for page in pages) >= 7
        assert [len(page.items) for page in pages[:2]] == [3, 3]
        assert len({page.version for page in pages}) == 1
        async with reflecting(client, CONFIG_MAPS, namespace="default", page=3) as reflector:
            assert reflector.items["default/map-6"] == "old"
            for number in range(7):
                await write(client, f"map-{number}", "new")
                await until(partial(shows, reflector, f"default/map-{number}", "new"))
                proxy.cut(is_watch)
            await client.delete(CONFIG_MAPS, "map-0", "default")
            await until(lambda: "default/map-0" not in reflector.items)
            assert reflector.lists == 1

    with FaultyProxy(plane) as proxy:
        run(plane.kubeconfig("admin", proxy.url), story)


def test_a_copy_is_true_again_after_the_server_was_killed_and_forgot_its_history(plane: ControlPlane) -> None:
    async def story(client: Client) -> None:
        await write(client, "kept", "before")
        async with reflecting(client, CONFIG_MAPS, namespace="default") as reflector:
            await asyncio.to_thread(plane.kill, "apiserver")
            # Not in another thread: the kernel ends a program with the thread that started it.
            plane.start("apiserver")
            await write(client, "kept", "after")
            await until(lambda: reflector.items["default/kept"] == "after", 60)
            assert not reflector.problems
        with pytest.raises(ApiError) as caught:
            async for _ in client.watch(CONFIG_MAPS, "default", version="1", seconds=2):
                pass
        assert caught.value.gone

    run(plane.kubeconfig("admin"), story)


def test_a_bind_happens_once_whatever_becomes_of_its_answer(plane: ControlPlane) -> None:
    first, second = make_pods(plane, "bound-once", "bound-unheard")

    async def story(client: Client) -> None:
        await client.bind("default", "bound-once", first, "n1", {"numaware.io/placement-predicted": "[]"})
        for uid, node in ((first, "n1"), (first, "n2"), (second, "n1")):
            with pytest.raises(ApiError) as caught:
                await client.bind("default", "bound-once", uid, node)
            assert caught.value.conflict
            assert not caught.value.uncertain
        proxy.refuse(2, is_bind)
        proxy.lose_answers(1)
        with pytest.raises(ApiError) as lost:
            await client.bind("default", "bound-unheard", second, "n1")
        assert lost.value.uncertain
        assert proxy.seen()["refused"] == 2

    with FaultyProxy(plane) as proxy:
        run(plane.kubeconfig("numaware-scheduler", proxy.url), story)
    for name in ("bound-once", "bound-unheard"):
        pod = plane.api().get(f"/api/v1/namespaces/default/pods/{name}")
        assert pod["spec"]["nodeName"] == "n1"
    pod = plane.api().get("/api/v1/namespaces/default/pods/bound-once")
    assert pod["metadata"]["annotations"]["numaware.io/placement-predicted"] == "[]"


def test_a_condition_is_set_beside_the_others_and_only_on_the_pod_that_was_meant(plane: ControlPlane) -> None:
    (uid,) = make_pods(plane, "waits")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}

    async def story(client: Client) -> None:
        await client.patch_pod_status(
            "default", "waits", uid, {"conditions": [{"type": "x/y", "status": "True"}]}
        )
        await client.patch_pod_status("default", "waits", uid, {"conditions": [condition]})
        with pytest.raises(ApiError) as caught:
            await client.patch_pod_status("default", "waits", "another", {"conditions": [condition]})
        assert caught.value.conflict

    run(plane.kubeconfig("numaware-scheduler"), story)
    status = plane.api().get("/api/v1/namespaces/default/pods/waits")["status"]
    assert {made["type"]: made["status"] for made in status["conditions"]} == {
        "x/y": "True",
        "PodScheduled": "False",
    }


def test_applying_twice_is_one_object_owned_by_its_manager(plane: ControlPlane) -> None:
    body = {
        **NODE_RESOURCE_TOPOLOGIES.head,
        "metadata": {"name": "n1"},
        "zones": [{"name": "node-0", "type": "Node"}],
    }

    async def story(client: Client) -> None:
        first = await client.apply(NODE_RESOURCE_TOPOLOGIES, "n1", body, manager="numaware")
        assert await client.apply(NODE_RESOURCE_TOPOLOGIES, "n1", body, manager="numaware") == first
        other = body | {"zones": []}
        with pytest.raises(ApiError) as caught:
            await client.apply(NODE_RESOURCE_TOPOLOGIES, "n1", other, manager="another", force=False)
        assert caught.value.conflict
        made = msgspec.json.decode(await client.get(NODE_RESOURCE_TOPOLOGIES, "n1"))
        assert [owner["manager"] for owner in made["metadata"]["managedFields"]] == ["numaware"]

    run(plane.kubeconfig("admin"), story)


def test_a_kind_appears_with_its_definition_and_its_objects_go_with_it(plane: ControlPlane) -> None:
    things = Resource("numaware.example", "v1", "things", "Thing", namespaced=False)
    definition = {
        **CRDS.head,
        "metadata": {"name": f"{things.plural}.{things.group}"},
        "spec": {
            "group": things.group,
            "scope": "Cluster",
            "names": {"plural": things.plural, "kind": things.kind},
            "versions": [
                {
                    "name": things.version,
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                    },
                }
            ],
        },
    }
    body = {
        **things.head,
        "metadata": {"name": "one"},
        "data": {"value": "v"},
    }

    async def story(client: Client) -> None:
        async with reflecting(client, things, sleep=lambda _: asyncio.sleep(0.1)) as reflector:
            assert not reflector.items
            name = f"{things.plural}.{things.group}"
            await client.apply(CRDS, name, definition, manager="e2e")
            while "one" not in reflector.items:
                with suppress(ApiError):
                    await client.apply(things, "one", body, manager="e2e")
                await asyncio.sleep(0.1)
            await client.delete(CRDS, name)
            await until(lambda: not reflector.items, 60)

    run(plane.kubeconfig("admin"), story)


def test_events_are_taken_by_the_server_and_counted_by_kubectl(plane: ControlPlane) -> None:
    (uid,) = make_pods(plane, "told-of")
    time = 0.0

    async def story(client: Client) -> None:
        nonlocal time
        events = EventWriter(client, controller="numaware.io/scheduler", instance="e2e", clock=lambda: time)
        async with events:
            pod = Subject("Pod", "told-of", "default", uid)
            for _ in range(3):
                events.tell(pod, "Warning", "FailedScheduling", "Scheduling", "no NUMA node has room")
                await until(events._idle.is_set)
                time += 60
            events.tell(Subject("Node", "n1"), "Normal", "TopologyRead", "Reading", "x" * 3000)
        assert (events.written, events.failed, events.dropped) == (4, 0, 0)

    run(plane.kubeconfig("numaware-scheduler"), story)
    (event,) = plane.api().list_all(EVENTS.path("default"), fieldSelector="regarding.name=told-of")
    assert event["series"]["count"] == 3
    told = plane.kubectl("describe", "pod", "told-of")
    assert "no NUMA node has room" in told
    assert "(x3 over" in told
    (event,) = plane.api().list_all(EVENTS.path("default"), fieldSelector="regarding.name=n1")
    assert len(event["note"].encode()) <= 1024


def test_of_two_candidates_one_leads_and_hands_over_when_it_stops(plane: ControlPlane) -> None:
    async def story(client: Client) -> None:
        started: list[str] = []

        def candidate(name: str) -> asyncio.Task[None]:
            times = LeaseTimes(lease=6.0, renew=4.0, retry=0.2)
            election = Election(client, "numaware-scheduler", "numaware", name, times=times)

            async def work() -> None:
                assert election.holds
                started.append(name)
                await asyncio.Event().wait()

            return asyncio.create_task(election.lead(work))

        first = candidate("a")
        await until(lambda: started == ["a"])
        second = candidate("b")
        await asyncio.sleep(1)
        assert started == ["a"]
        first.cancel()
        await asyncio.wait([first])
        await until(lambda: started == ["a", "b"])
        second.cancel()
        await asyncio.wait([second])
        spec = msgspec.json.decode(await client.get(LEASES, "numaware-scheduler", "numaware"))["spec"]
        assert spec["leaseTransitions"] == 1
        assert not spec.get("holderIdentity")

    run(plane.kubeconfig("numaware-scheduler"), story)


def test_what_is_not_allowed_is_told_and_tried_again(plane: ControlPlane) -> None:
    async def story(client: Client) -> None:
        told: list[ApiError] = []
        reflector = Reflector(client, NODES, value, on_trouble=told.append)
        task = asyncio.create_task(reflector.run())
        await until(lambda: bool(told))
        task.cancel()
        await asyncio.wait([task])
        assert not reflector.synced.is_set()
        assert reflector.in_trouble
        assert str(told[0]).startswith("403 Forbidden: nodes is forbidden")

    run(plane.kubeconfig("stranger"), story)
