"""An agent and the orders of a pool: carried out, refused, called back, and taken up after a crash."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from kube.fake_api_server import FakeApiServer, connection, fake_api_server, until
from node.kubelet_switch.conftest import SwitchedNode
from node.kubelet_switch.fake_unit import broken
from numaware.kube.client import Client
from numaware.kube.resources import KUBELET_POLICIES, NODES
from numaware.node.kubelet_switch import journal
from numaware.node.kubelet_switch.worker import PolicyWorker, SwitchOptions

STATIC = {"cpuManagerPolicy": "static", "topologyManagerPolicy": "restricted"}
POLICY = KUBELET_POLICIES.path("", "p")


class Scene(NamedTuple):
    node: SwitchedNode
    server: FakeApiServer
    client: Client

    def order(self, **spec: Any) -> None:
        entries = self.server.objects.get(POLICY, {}).get("status", {})
        self.server.put(KUBELET_POLICIES, "p", spec={"kubelet": STATIC, **spec}, status=entries)

    @property
    def entry(self) -> dict[str, Any]:
        found: dict[str, Any] = (
            self.server.objects.get(POLICY, {}).get("status", {}).get("nodes", {}).get("n1", {})
        )
        return found

    async def reaches(self, phase: str) -> None:
        await until(lambda: self.entry.get("phase") == phase)

    @property
    def unschedulable(self) -> bool:
        return bool(self.server.objects[NODES.path("", "n1")]["spec"].get("unschedulable"))


def run(
    node: SwitchedNode,
    story: Callable[[Scene], Awaitable[None]],
    *,
    allowed: bool = True,
    heartbeat: str = "2999-01-01T00:00:00Z",
    has_kubeconfig: bool = True,
) -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(fake_api_server())
            client = await stack.enter_async_context(Client(connection(server)))
            ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}
            status = {"conditions": [ready], "nodeInfo": {"kubeletVersion": "v1.35.0"}}
            server.put(NODES, "n1", spec={}, status=status)
            options = SwitchOptions(
                allowed,
                machine_root=node.made(),
                config=str(node.config),
                kubelet_root=str(node.kubelet),
                kubeconfig=str(kubeconfig(node.folder, server.base)) if has_kubeconfig else "",
                journal=node.home,
                seconds=60.0,
            )
            worker = PolicyWorker("n1", client, options, lambda _, __: node.unit)
            task = asyncio.create_task(worker.run())
            try:
                await story(Scene(node, server, client))
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    asyncio.run(play())


def kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def policy_of(node: SwitchedNode) -> str:
    return node.situation().place.read("v1.35.0").config.cpu_policy


def test_an_order_is_carried_out_and_put_back(node: SwitchedNode) -> None:
    before = node.bytes()

    async def story(scene: Scene) -> None:
        scene.order()
        await scene.reaches("Done")
        assert policy_of(node) == "static"
        assert not scene.unschedulable
        scene.order(order="RollBack")
        await scene.reaches("RolledBack")
        assert node.bytes() == before

    run(node, story)


def test_what_the_kubelet_would_refuse_is_not_begun(node: SwitchedNode) -> None:
    before = node.bytes()

    async def story(scene: Scene) -> None:
        scene.order(kubelet={"memoryManagerPolicy": "Static"})
        await scene.reaches("Refused")
        assert "the kubelet would not start: " in scene.entry["message"]
        assert node.bytes() == before
        assert not node.unit.calls

    run(node, story)


def test_a_unit_that_cannot_be_started_again_is_not_stopped(node: SwitchedNode) -> None:
    before = node.bytes()
    node.unit.loaded = False

    async def story(scene: Scene) -> None:
        scene.order()
        await scene.reaches("Refused")
        assert "systemd has no such unit that it could start" in scene.entry["message"]
        assert node.bytes() == before
        assert not node.unit.calls
        assert journal.latest(node.home) is None

    run(node, story)


def test_an_order_that_is_called_back_half_way_leaves_all_as_it_was(node: SwitchedNode) -> None:
    before = node.bytes()
    node.unit.slow = True

    async def story(scene: Scene) -> None:
        scene.order()
        await until(lambda: "wait until" in scene.entry.get("message", ""))
        assert scene.unschedulable
        scene.order(order="Abort")
        await scene.reaches("Failed")
        assert scene.entry["message"] == "it was called back"
        assert node.bytes() == before
        assert node.unit.active
        assert not scene.unschedulable

    run(node, story)


def test_an_agent_that_may_not_says_so_and_touches_nothing(node: SwitchedNode) -> None:
    async def story(scene: Scene) -> None:
        scene.order()
        await scene.reaches("NotAllowed")
        assert "--allow-kubelet-changes" in scene.entry["message"]

    run(node, story, allowed=False)
    assert not node.home.exists()


def test_a_claim_without_a_journal_is_begun_anew_and_one_with_it_taken_up(node: SwitchedNode) -> None:
    """As a crash of the agent leaves them."""

    async def story(scene: Scene) -> None:
        scene.server.put(
            KUBELET_POLICIES,
            "p",
            spec={"kubelet": STATIC},
            status={"nodes": {"n1": {"phase": "Switching", "wanted": ""}}},
        )
        await scene.reaches("Done")

    run(node, story)
    story_of = journal.latest(node.home)
    assert story_of is not None
    lines = (story_of.folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    # The machine lost power after the backup.
    done = [line for line in lines[1:] if msgspec.json.decode(line).get("mark") == "done"]
    (story_of.folder / "journal.jsonl").write_bytes(b"".join([lines[0], *done[:3]]))
    asyncio.run(node.unit.stop())
    recorded = story_of.plan.order
    assert recorded.startswith("p/")

    async def again(scene: Scene) -> None:
        scene.server.put(
            KUBELET_POLICIES,
            "p",
            spec={"kubelet": STATIC},
            status={"nodes": {"n1": {"phase": "Switching", "wanted": recorded.partition("/")[2]}}},
        )
        await scene.reaches("Done")
        assert node.unit.active
        assert policy_of(node) == "static"

    run(node, again)


def left_half_way(node: SwitchedNode, steps: int) -> str:
    """The order whose agent was killed after so many steps; its kubelet is down."""

    async def done(scene: Scene) -> None:
        scene.order()
        await scene.reaches("Done")

    run(node, done)
    story = journal.latest(node.home)
    assert story is not None
    file = story.folder / "journal.jsonl"
    first, *lines = file.read_bytes().splitlines(keepends=True)
    whole = [line for line in lines if msgspec.json.decode(line).get("mark") == "done"]
    file.write_bytes(b"".join([first, *whole[:steps]]))
    asyncio.run(node.unit.stop())
    return story.plan.order.partition("/")[2]


def entry_of(wanted: str) -> dict[str, Any]:
    return {"nodes": {"n1": {"phase": "Switching", "wanted": wanted}}}


@pytest.mark.parametrize("steps", [2, 3, 4])
@pytest.mark.parametrize(
    ("spec", "phase"),
    [
        ({"kubelet": STATIC, "order": "Abort"}, "Failed"),
        ({"kubelet": STATIC, "order": "RollBack"}, "RolledBack"),
        ({"kubelet": {"cpuManagerPolicy": "none"}}, "Done"),
    ],
    ids=["called-back", "rolled-back", "ordered-otherwise"],
)
def test_what_was_left_half_way_is_put_back_when_it_is_no_longer_wanted(
    node: SwitchedNode, steps: int, spec: dict[str, Any], phase: str
) -> None:
    """The order changed while the agent was away: its kubelet must not stay down for that."""
    before = node.bytes()
    wanted = left_half_way(node, steps)

    async def story(scene: Scene) -> None:
        scene.server.put(KUBELET_POLICIES, "p", spec=spec, status=entry_of(wanted))
        await scene.reaches(phase)
        assert node.unit.active
        assert node.bytes() == before
        assert not scene.unschedulable

    run(node, story)


def test_an_order_that_cannot_be_put_back_when_it_is_called_back_says_so(node: SwitchedNode) -> None:
    node.unit.slow = True

    async def story(scene: Scene) -> None:
        scene.order()
        await until(lambda: "wait until" in scene.entry.get("message", ""))
        node.unit.lasting["stop"] = broken("Access denied")
        scene.order(order="Abort")
        await scene.reaches("Failed")
        assert scene.entry["message"].startswith("not put back: ")

    run(node, story)
    left = journal.half_way(node.home)
    assert left is not None


def test_no_order_is_begun_on_a_node_that_was_left_half_way(node: SwitchedNode) -> None:
    """By a person, or stuck: what is half-way must not be taken for how the node was."""
    left_half_way(node, 3)

    async def story(scene: Scene) -> None:
        scene.order(attempt=1)
        await scene.reaches("Refused")
        assert "left half-way" in scene.entry["message"]

    folder = journal.next_folder(node.home)
    run(node, story)
    assert not folder.exists()


def test_a_kubelet_that_was_never_away_need_not_say_anew_that_it_is_ready(node: SwitchedNode) -> None:
    """It says so only every five minutes while nothing changes, and nobody waits for that long."""
    node.unit.trouble["stop"] = broken("Access denied")
    node.unit.since = datetime(2026, 1, 1, tzinfo=UTC).timestamp()

    async def story(scene: Scene) -> None:
        scene.order()
        await scene.reaches("Failed")
        assert scene.entry["message"] == "Access denied"
        assert not scene.unschedulable

    run(node, story, heartbeat="2026-01-01T00:04:00Z")


def test_a_kubelet_whose_kubeconfig_is_not_found_is_told_how_to_name_it(node: SwitchedNode) -> None:
    async def story(scene: Scene) -> None:
        scene.order()
        await scene.reaches("Refused")
        assert "--kubelet-kubeconfig" in scene.entry["message"]

    run(node, story, has_kubeconfig=False)


def test_an_order_that_is_deleted_half_way_keeps_no_other_from_being_carried_out(node: SwitchedNode) -> None:
    node.unit.slow = True

    async def story(scene: Scene) -> None:
        scene.order()
        await until(lambda: "wait until" in scene.entry.get("message", ""))
        scene.server.remove(KUBELET_POLICIES, "p")
        node.unit.active = True
        await until(lambda: not scene.unschedulable)
        scene.server.put(KUBELET_POLICIES, "q", spec={"kubelet": STATIC})
        other = KUBELET_POLICIES.path("", "q")
        await until(lambda: scene.server.objects[other].get("status", {}).get("nodes", {}).get("n1"))
        await until(lambda: scene.server.objects[other]["status"]["nodes"]["n1"]["phase"] == "Done")

    run(node, story)


def test_a_node_that_left_while_it_was_switched_is_not_waited_for(node: SwitchedNode) -> None:
    async def story(scene: Scene) -> None:
        entries = {"nodes": {"left": {"phase": "Switching"}, "n2": {"phase": "Switching"}}}
        scene.server.put(NODES, "n2")
        scene.server.put(KUBELET_POLICIES, "p", spec={"kubelet": STATIC}, status=entries)
        await scene.reaches("Pending")
        # Nobody tells of a Node that goes; the next look at the order finds it out.
        scene.server.remove(NODES, "n2")
        scene.order(maxUnavailable=1)
        await scene.reaches("Done")
        assert policy_of(node) == "static"

    run(node, story)
