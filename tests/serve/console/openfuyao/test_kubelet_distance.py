"""NUMA distance: an order to all kubelets, followed until every node has it or all are put back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import count
from typing import NamedTuple

import pytest

from kube.fake_api_server import FakeApiServer, connection, fake_api_server
from numaware.kube import kubelet_policies
from numaware.kube.client import Client
from numaware.kube.kubelet_policies import NodeStatus, Phase
from numaware.kube.resources import KUBELET_POLICIES, NODES, SELF_SUBJECT_ACCESS_REVIEWS, Resource
from numaware.serve.console.openfuyao.distance_order import NAME
from numaware.serve.console.openfuyao.kubelet_distance import KubeletDistance
from numaware.serve.console.world import SwitchError

POLICY = KUBELET_POLICIES.path("", NAME)


class Scene(NamedTuple):
    """A cluster of two nodes, and agents that say what a test has them say."""

    server: FakeApiServer
    client: Client
    part: KubeletDistance
    says: dict[str, Phase]

    async def agents(self) -> None:
        """Each answers an order, as far as it is of its age; a rollback makes all of them go back."""
        while True:
            await asyncio.sleep(0)
            if POLICY not in self.server.objects:
                continue
            policy = await kubelet_policies.read(self.client, NAME)
            for name, phase in self.says.items():
                said: Phase = "RolledBack" if policy.spec.order == "RollBack" and phase == "Done" else phase
                mine = policy.nodes.get(name)
                if mine is None or (mine.phase, mine.wanted) != (said, policy.wanted):
                    entry = NodeStatus(said, policy.wanted, message=f"{name} says {said}")
                    await kubelet_policies.report(self.client, policy, name, entry)


def run(
    story: Callable[[Scene], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
    says: dict[str, Phase] | None = None,
    verbs: tuple[str, ...] = ("get", "create", "patch"),
) -> None:
    async def may_i(_: Client, verb: str, resource: Resource) -> bool:
        return verb in verbs and resource == KUBELET_POLICIES

    monkeypatch.setattr("numaware.serve.console.openfuyao.kubelet_distance.may_i", may_i)

    async def no_wait(_: float) -> None:
        await asyncio.sleep(0)

    async def play() -> None:
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(fake_api_server())
            client = await stack.enter_async_context(Client(connection(server)))
            for name in ("n1", "n2"):
                server.put(NODES, name, spec={}, status={})
            part = KubeletDistance(client, sleep=no_wait)
            scene = Scene(server, client, part, says if says is not None else {"n1": "Done", "n2": "Done"})
            agents = asyncio.create_task(scene.agents())
            try:
                await story(scene)
            finally:
                agents.cancel()

    asyncio.run(play())


def test_it_is_on_when_every_node_has_it_and_off_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(scene: Scene) -> None:
        await scene.part.read()
        assert (scene.part.switch.status, str(scene.part.switch.missing)) == ("close", "")
        assert "prefer-closest-numa-nodes: 'true'" in scene.part.switched("open")
        assert await scene.part.move("open", "somebody")
        spec = scene.server.objects[POLICY]["spec"]
        assert spec["kubelet"]["topologyManagerPolicyOptions"] == {"prefer-closest-numa-nodes": "true"}
        assert spec["whereMissing"]["cpuManagerPolicy"] == "static"
        assert scene.part.switch.conf == scene.part.switched("open")
        assert not await scene.part.move("open", "somebody")
        assert await scene.part.move("close", "somebody")
        spec = scene.server.objects[POLICY]["spec"]
        assert spec["kubelet"]["topologyManagerPolicyOptions"] == {"prefer-closest-numa-nodes": "false"}
        assert scene.part.switch.status == "close"
        assert scene.part.switch.progress is None

    run(story, monkeypatch)


def test_a_node_that_fails_has_all_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(scene: Scene) -> None:
        with pytest.raises(
            SwitchError, match="node n2 did not take it, and all kubelets were put back"
        ) as failed:
            await scene.part.move("open", "somebody")
        assert failed.value.undone
        assert scene.server.objects[POLICY]["spec"]["order"] == "RollBack"
        assert scene.part.switch.status == "close"

    run(story, monkeypatch, {"n1": "Done", "n2": "Failed"})


def test_nobody_waits_for_a_node_that_has_left_the_cluster_to_be_put_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(scene: Scene) -> None:
        policy = await kubelet_policies.order(scene.client, NAME, {"order": "Apply"})
        await kubelet_policies.report(scene.client, policy, "left", NodeStatus("Done", policy.wanted))
        async with asyncio.timeout(10):
            with pytest.raises(SwitchError, match="all kubelets were put back"):
                await scene.part.move("open", "somebody")

    run(story, monkeypatch, {"n1": "Done", "n2": "Failed"})


def test_nodes_that_were_not_put_back_in_time_are_not_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(scene: Scene) -> None:
        ticks = count()

        def clock() -> float:
            """Stands still until all is called back."""
            order = scene.server.objects.get(POLICY, {}).get("spec", {}).get("order")
            return 1000.0 * next(ticks) if order == "RollBack" else 0.0

        part = KubeletDistance(scene.client, clock=clock, sleep=asyncio.sleep)
        with pytest.raises(SwitchError, match="not all kubelets were put back in time") as failed:
            await part.move("open", "somebody")
        assert not failed.value.undone

    monkeypatch.setattr("numaware.serve.console.openfuyao.kubelet_distance._SECONDS_BETWEEN_LOOKS", 0.0)
    run(story, monkeypatch, {"n1": "Switching", "n2": "Failed"})


def test_where_no_agent_may_change_its_kubelet_nothing_is_ordered_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(scene: Scene) -> None:
        with pytest.raises(SwitchError, match="--allow-kubelet-changes"):
            await scene.part.move("open", "somebody")
        assert scene.part.switch.status == "close"

    run(story, monkeypatch, {"n1": "NotAllowed", "n2": "NotAllowed"})


@pytest.mark.parametrize(("verbs", "missing"), [((), "create"), (("create",), "patch")])
def test_without_a_right_it_is_locked_and_names_the_verb(
    monkeypatch: pytest.MonkeyPatch, verbs: tuple[str, ...], missing: str
) -> None:
    async def story(scene: Scene) -> None:
        await scene.part.read()
        assert scene.part.switch.locked
        assert str(scene.part.switch.missing).endswith(f"may not {missing} kubeletpolicies.numaware.io")

    run(story, monkeypatch, {}, verbs)


def test_who_may_not_even_look_and_who_has_no_such_objects_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(scene: Scene) -> None:
        scene.server.forbidden.add(POLICY)
        await scene.part.read()
        assert scene.part.switch.locked
        assert "may not get" in str(scene.part.switch.missing)
        scene.server.forbidden.clear()
        scene.server.missing.add(KUBELET_POLICIES.path())
        await scene.part.read()
        assert not scene.part.switch.locked
        assert "does not know KubeletPolicy" in str(scene.part.switch.missing)

    run(story, monkeypatch, {})


def test_an_account_asks_what_it_may_do_itself() -> None:
    assert SELF_SUBJECT_ACCESS_REVIEWS.path() == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
