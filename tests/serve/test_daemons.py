"""The scheduler and the extender as whole programs, on a small API server in the test's own process."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kube.fake_api_server import FakeApiServer, fake_api_server, until
from numaware.diagnose.texts import say
from numaware.errors import InputError
from numaware.kube.lease import LeaseTimes
from numaware.kube.resources import (
    EVENTS,
    LEASES,
    NODE_RESOURCE_TOPOLOGIES,
    PODS,
    PRIORITY_CLASSES,
)
from numaware.schedule.ledger import OBSERVED, PREDICTED
from numaware.schedule.profile import DEFAULT_PROFILE
from numaware.schedule.storm import HELD
from numaware.serve.daemons import ExtenderOptions, SchedulerOptions, run_extender, run_scheduler
from numaware.web import Tls
from support.live_cluster import add_node, add_pod, kubeconfig
from support.small_clusters import gpu_node

OPTIONS = SchedulerOptions(
    names=("numaware",),
    profile=DEFAULT_PROFILE,
    profiles={},
    profile_files={},
    listen="127.0.0.1:0",
    tls=None,
    lease=("numaware", "numaware-scheduler"),
    lease_times=LeaseTimes(),
    misses=None,
    clean_up=False,
    log="json",
)


TOKEN = str(uuid.UUID(int=18))


def node_of(server: FakeApiServer, name: str) -> str:
    found = server.objects[PODS.path("default", name)]
    return str(found["spec"].get("nodeName", ""))


def notes(server: FakeApiServer, reason: str) -> list[dict[str, Any]]:
    path = EVENTS.path("default")
    return [
        found
        for where, found in server.objects.items()
        if where.startswith(path) and found["reason"] == reason
    ]


@asynccontextmanager
async def scheduling(
    server: FakeApiServer, folder: Path, options: SchedulerOptions = OPTIONS
) -> AsyncIterator[asyncio.Task[int]]:
    task = asyncio.create_task(run_scheduler(kubeconfig(server, folder), None, options))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait((task,))


def play(story: Callable[[FakeApiServer], Awaitable[None]]) -> None:
    async def run() -> None:
        async with fake_api_server() as server:
            await story(server)

    asyncio.run(run())


def test_a_pod_is_bound_with_its_prediction_and_the_lease_is_given_back_at_the_end(tmp_path: Path) -> None:
    async def story(server: FakeApiServer) -> None:
        add_node(server, "n0", gpu_node())
        async with scheduling(server, tmp_path):
            add_pod(server, "a", 4)
            await until(lambda: node_of(server, "a") == "n0")
            await until(lambda: bool(notes(server, "Scheduled")))
            lease = server.objects[LEASES.path("numaware", "numaware-scheduler")]
            assert lease["spec"]["holderIdentity"]
        annotations = server.objects[PODS.path("default", "a")]["metadata"]["annotations"]
        (zone,) = json.loads(annotations[PREDICTED])
        assert (zone["zone"], zone["cpus"]) == ("node-0", "1-4")
        lease = server.objects[LEASES.path("numaware", "numaware-scheduler")]
        assert lease["spec"]["holderIdentity"] == ""

    play(story)


def test_a_pod_that_no_node_takes_says_why_and_is_placed_when_there_is_room(tmp_path: Path) -> None:
    async def story(server: FakeApiServer) -> None:
        add_node(server, "n0", gpu_node("single-numa-node"))
        async with scheduling(server, tmp_path):
            add_pod(server, "big", 8)
            await until(lambda: node_of(server, "big") == "n0")
            add_pod(server, "late", 8)
            await until(lambda: bool(notes(server, "FailedScheduling")))
            (condition,) = server.objects[PODS.path("default", "late")]["status"]["conditions"]
            assert (condition["type"], condition["reason"]) == ("PodScheduled", "Unschedulable")
            assert condition["message"].startswith("0/1 nodes are available: ")
            server.remove(PODS, "big", "default")
            await until(lambda: node_of(server, "late") == "n0")

    play(story)


def test_dashboards_for_kube_scheduler_see_why_pods_wait_and_what_is_asked_of_the_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story(server: FakeApiServer) -> None:
        add_node(server, "n0", gpu_node())
        async with scheduling(server, tmp_path):
            add_pod(server, "huge", 1000)
            await until(lambda: bool(notes(server, "FailedScheduling")))
            told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
            (address,) = [line["address"] for line in told if line["event"] == "listening"]
            async with aiohttp.ClientSession() as session, session.get(f"{address}/metrics") as answer:
                page = await answer.text()
            waits = 'scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="numaware"} 1.0'
            assert waits in page.splitlines()
            host = server.base.partition("//")[2]
            assert f'rest_client_requests_total{{code="200",host="{host}",method="GET"}}' in page
            assert f'rest_client_request_duration_seconds_count{{host="{host}",verb="POST"}}' in page

    play(story)


def test_nodes_that_make_no_sense_are_reported_and_the_others_are_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story(server: FakeApiServer) -> None:
        add_node(server, "good", gpu_node())
        add_node(server, "odd", gpu_node(), published=False)
        zones = [{"name": "node-0", "type": "Node", "resources": [_resource("-4")]}]
        server.put(NODE_RESOURCE_TOPOLOGIES, "odd", zones=zones, attributes=[])
        async with scheduling(server, tmp_path):
            for number in range(2):
                add_pod(server, f"p{number}", 4)
            await until(lambda: all(node_of(server, f"p{number}") == "good" for number in range(2)))

    play(story)
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    assert [line["node"] for line in told if line["event"] == "a topology cannot be used"] == ["odd"]


def _resource(available: str) -> dict[str, str]:
    return {"name": "cpu", "capacity": "8", "allocatable": "8", "available": available}


def test_a_loop_of_create_and_refuse_is_told_to_its_owner_and_refused_pods_are_tidied_up(
    tmp_path: Path,
) -> None:
    """The kubelet of n0 refuses what its own report says it would take."""
    owner = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": "vmstorage",
        "uid": "s",
        "controller": True,
    }

    async def story(server: FakeApiServer) -> None:
        add_node(server, "n0", gpu_node())
        async with scheduling(server, tmp_path, OPTIONS._replace(clean_up=True)):
            await until(lambda: LEASES.path("numaware", "numaware-scheduler") in server.objects)
            for number in range(3):
                add_pod(server, f"vmstorage-{number}", 4, nodeName="n0")
                path = PODS.path("default", f"vmstorage-{number}")
                made = server.objects[path]
                made["metadata"]["ownerReferences"] = [owner]
                made["status"] = {"phase": "Failed", "reason": "TopologyAffinityError"}
                server._write(path, made)
            add_pod(server, "others", 4, nodeName="n0", schedulerName="default-scheduler")
            theirs = PODS.path("default", "others")
            refused = {"phase": "Failed", "reason": "TopologyAffinityError"}
            server._write(theirs, {**server.objects[theirs], "status": refused})
            await until(lambda: bool(notes(server, "NumaAdmissionStorm")))
            await until(lambda: not any("vmstorage" in path for path in server.objects if "/pods/" in path))
            assert theirs in server.objects
        (storm,) = notes(server, "NumaAdmissionStorm")
        assert (storm["regarding"]["kind"], storm["regarding"]["name"]) == ("StatefulSet", "vmstorage")
        assert "3 pods of StatefulSet default/vmstorage refused by n0" in storm["note"]

    play(story)


def test_a_template_that_a_node_refused_is_held_off_it(tmp_path: Path) -> None:
    """The kubelet of n0 refuses what its own report says it would take; the pod made anew waits, and says why."""

    async def story(server: FakeApiServer) -> None:
        add_node(server, "n0", gpu_node())
        async with scheduling(server, tmp_path, OPTIONS._replace(misses=tmp_path / "misses")):
            add_pod(server, "a", 4)
            await until(lambda: node_of(server, "a") == "n0")
            path = PODS.path("default", "a")
            refused = {"phase": "Failed", "reason": "TopologyAffinityError"}
            server._write(path, {**server.objects[path], "status": refused})
            await until(lambda: bool(list((tmp_path / "misses").glob("*.json"))))
            server.remove(PODS, "a", "default")
            add_pod(server, "a", 4)
            await until(lambda: bool(notes(server, "FailedScheduling")))
            assert say(HELD) in notes(server, "FailedScheduling")[0]["note"]

    play(story)


def test_pods_without_a_number_rank_as_their_class_says(tmp_path: Path) -> None:
    async def story(server: FakeApiServer) -> None:
        server.put(PRIORITY_CLASSES, "urgent", value=1000)
        add_pod(server, "a", 8)
        add_pod(server, "b", 8, priorityClassName="urgent")
        async with scheduling(server, tmp_path):
            await until(lambda: bool(notes(server, "FailedScheduling")))
            add_node(server, "n0", gpu_node("single-numa-node"))
            await until(lambda: node_of(server, "b") == "n0")
            assert node_of(server, "a") == ""

    play(story)


def test_a_follower_binds_nothing_while_there_is_a_leader(tmp_path: Path) -> None:
    async def story(server: FakeApiServer) -> None:
        add_node(server, "n0", gpu_node())
        async with scheduling(server, tmp_path):
            add_pod(server, "a", 2)
            await until(lambda: node_of(server, "a") == "n0")
            async with scheduling(server, tmp_path):
                await server.watched(10)
                add_pod(server, "b", 2)
                await until(lambda: node_of(server, "b") == "n0")
                binds = [path for _, path, _ in server.calls if path.endswith("/binding")]
                assert len(binds) == 2

    play(story)


def test_an_extender_beyond_loopback_insists_on_knowing_its_clients(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    open_to_all = ExtenderOptions("0.0.0.0:0", None, token, "pass", "json")
    for address in ("127.0.0.1.evil.example:0", "localhost.evil.example:0", "127.evil:0"):
        with pytest.raises(InputError, match="whoever reaches this address could bind pods"):
            asyncio.run(run_extender(None, None, open_to_all._replace(listen=address)))
    with pytest.raises(InputError, match="add --token-file on"):
        asyncio.run(run_extender(None, None, open_to_all._replace(listen="127.0.0.1:0", token=None)))
    with pytest.raises(InputError, match="whoever reaches this address could bind pods"):
        asyncio.run(run_extender(None, None, open_to_all))
    without_clients = open_to_all._replace(tls=Tls(tmp_path / "c", tmp_path / "k"))
    with pytest.raises(InputError, match="--client-ca"):
        asyncio.run(run_extender(None, None, without_clients))


def test_the_extender_answers_and_tells_its_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def story(server: FakeApiServer) -> None:
        add_node(server, "n0", gpu_node("single-numa-node"))
        token = tmp_path / "token"
        token.write_text(TOKEN)
        options = ExtenderOptions("127.0.0.1:0", None, token, "pass", "json")
        task = asyncio.create_task(run_extender(kubeconfig(server, tmp_path), None, options))
        address = ""

        def listening() -> bool:
            nonlocal address
            for line in capsys.readouterr().err.splitlines():
                told = json.loads(line)
                address = told.get("address", address)
            return bool(address)

        await until(listening)
        async with aiohttp.ClientSession(address) as session:
            await server.watched(4)
            assert (await session.get("/readyz")).status == 200
            asked = {
                "Pod": {
                    "metadata": {"name": "a", "namespace": "default", "uid": "a"},
                    "spec": {"containers": [_container(12)]},
                },
                "NodeNames": ["n0"],
            }
            assert (await session.post("/extender/filter", json=asked)).status == 401
            # As Go's HTTP client sends what stands in a URL.
            basic = {"authorization": aiohttp.encode_basic_auth("numaware", TOKEN)}
            told = await (await session.post("/extender/filter", json=asked, headers=basic)).json()
            assert told["NodeNames"] == []
            text = await (await session.get("/metrics")).text()
        assert 'numaware_nodes{knowledge="complete"} 1.0' in text
        assert "numaware_extender_request_duration_seconds_count" in text
        # deploy/rbac/extender.yaml does not let it.
        assert not any(PRIORITY_CLASSES.path() == path for _, path, _ in server.calls)
        task.cancel()
        await asyncio.wait((task,))

    play(story)


def _container(cpus: int) -> dict[str, Any]:
    amounts = {"cpu": str(cpus), "memory": "1Gi"}
    return {"name": "c", "resources": {"limits": amounts, "requests": amounts}}


def test_what_the_agent_saw_is_held_against_the_prediction(tmp_path: Path) -> None:
    async def story(server: FakeApiServer) -> None:
        add_node(server, "n0", gpu_node())
        async with scheduling(server, tmp_path, OPTIONS._replace(misses=tmp_path / "misses")):
            add_pod(server, "a", 4)
            await until(lambda: node_of(server, "a") == "n0")
            path = PODS.path("default", "a")
            now = server.objects[path]
            other = '[{"zone":"node-1","amount":{"cpu":"4"},"cpus":"8-11"}]'
            now["metadata"]["annotations"][OBSERVED] = other
            server._write(path, now)
            await until(lambda: bool(list((tmp_path / "misses").glob("*.json"))))

    play(story)
    (file,) = (tmp_path / "misses").glob("*.json")
    assert json.loads(file.read_text(encoding="utf-8"))["outcome"] == "wrong_zone"
