"""The lab's kubelets: switched by orders one at a time, with nothing lost, and back again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from numaware.kube.kubelet_policies import NodeStatus
from numaware.schedule.ledger import Placement, placement_of
from numaware.serve.console.lab.world import HOUR, LabWorld
from numaware.serve.console.openfuyao.distance_order import NAME
from numaware.serve.console.world import DISTANCE, Switch, SwitchError
from numaware.simulate.traces import SECOND
from support.console_world import NOW

ON = (("prefer-closest-numa-nodes", "true"),)


def aged() -> LabWorld:
    world = LabWorld(NOW)
    world.advance(NOW + HOUR)
    return world


def placements(world: LabWorld) -> dict[str, Placement]:
    return {uid: placement_of(member.node, member.pods[uid]) for uid, member in world.cluster.where.items()}


def distance(world: LabWorld) -> Switch:
    return next(one for one in world.switches if one.id == DISTANCE)


async def moved(world: LabWorld, status: Any, step: int = SECOND) -> list[tuple[str, int]]:
    """Move it to its end in steps of the clock; how far it was meanwhile."""
    moving = asyncio.ensure_future(world.set_switch(DISTANCE, status, "me"))
    await asyncio.sleep(0)
    seen: list[tuple[str, int]] = []
    while not moving.done():
        progress = distance(world).progress
        if progress is not None:
            seen.append((progress.stage, progress.ready))
        phases = [one.phase for one in world.orders.policies[0].nodes.values()]
        assert phases.count("Switching") <= 1
        world.advance(world.now + step)
        await asyncio.sleep(0)
    await moving
    return seen


def options(world: LabWorld) -> set[tuple[tuple[str, str], ...]]:
    return {member.node.kubelet.config.topology_options for member in world.cluster}


def test_numa_distance_is_switched_on_node_by_node_and_off_again() -> None:
    world = aged()
    seen = asyncio.run(moved(world, "open"))
    assert [ready for _, ready in seen] == list(range(len(world.cluster)))
    assert {stage for stage, _ in seen} == {"switching"}
    assert distance(world).status == "open"
    assert options(world) == {ON}
    assert not any(member.facts.unschedulable for member in world.cluster)
    asyncio.run(moved(world, "close"))
    assert options(world) == {(("prefer-closest-numa-nodes", "false"),)}
    assert [(one.switch, one.after, one.by) for one in world.changes[-2:]] == [
        (DISTANCE, "open", "me"),
        (DISTANCE, "close", "me"),
    ]


def test_how_often_one_looks_changes_nothing() -> None:
    lives = []
    for step in (SECOND, 7 * SECOND):
        world = aged()
        asyncio.run(moved(world, "open", step))
        world.advance(NOW + HOUR + 60 * SECOND)
        lives.append(([(one.time, one.kind, one.pod, one.node) for one in world.events], placements(world)))
    assert lives[0] == lives[1]


def test_pods_keep_what_they_have_where_a_restart_takes_them_back() -> None:
    world = aged()
    before = placements(world)
    asyncio.run(moved(world, "open"))
    after = placements(world)
    stayed = [uid for uid in before if uid in after and world.stories[uid].since <= NOW + HOUR]
    assert len(stayed) > 100
    assert all(after[uid] == before[uid] for uid in stayed)


def test_a_kubelet_that_would_end_pods_is_left_alone_and_all_go_back() -> None:
    """Without a drain nothing moves: full-pcpus-only has no whole core left for a pod that is asked about again."""
    world = aged()

    async def play() -> None:
        wanted = {"topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"}}
        await world.orders.give("near", {"kubelet": wanted})
        for _ in range(60):
            world.advance(world.now + SECOND)
        (policy,) = world.orders.policies
        phases = {name: one.phase for name, one in policy.nodes.items()}
        (refused,) = [name for name, phase in phases.items() if phase == "Refused"]
        assert "would end: SMTAlignmentError" in policy.nodes[refused].message
        assert "Done" in phases.values()
        assert "Pending" in phases.values()
        await world.orders.change("near", "RollBack")
        for _ in range(60):
            world.advance(world.now + SECOND)
        assert set(options(world)) == {()}

    asyncio.run(play())


def test_an_order_is_held_gone_on_with_and_aborted() -> None:
    world = LabWorld(NOW)

    def done() -> int:
        return sum(one.phase == "Done" for one in world.orders.policies[0].nodes.values())

    async def play() -> None:
        await world.orders.give(
            "p", {"kubelet": {"topologyManagerScope": "container"}, "nodeSelector": {"pool": "gpu"}}
        )
        world.advance(world.now + 2 * SECOND)
        await world.orders.change("p", "Pause")
        world.advance(world.now + 9 * SECOND)
        assert done() == 3, "who was away comes up"
        await world.orders.change("p", "Apply")
        await world.orders.change("p", "Abort")
        world.advance(world.now + 9 * SECOND)
        assert done() == 3
        messages = [one.message for one in world.orders.policies[0].nodes.values() if one.phase == "Failed"]
        assert messages == ["it was called back"]
        with pytest.raises(KeyError):
            await world.orders.change("q", "Pause")

    asyncio.run(play())


def test_a_kubelet_that_was_away_for_an_earlier_order_has_its_turn_again() -> None:
    world = LabWorld(NOW)

    async def play() -> None:
        pool = {"pool": "gpu"}
        await world.orders.give("p", {"kubelet": {"topologyManagerScope": "container"}, "nodeSelector": pool})
        await world.orders.give("p", {"kubelet": {"topologyManagerScope": "pod"}, "nodeSelector": pool})
        for _ in range(60):
            world.advance(world.now + SECOND)
        (policy,) = world.orders.policies
        assert {one.phase for one in policy.nodes.values()} == {"Done"}
        scopes = {world.cluster.by_name[name].node.kubelet.config.topology_scope for name in policy.nodes}
        assert scopes == {"pod"}

    asyncio.run(play())


def test_what_a_kubelet_would_refuse_puts_all_back_and_is_told() -> None:
    world = LabWorld(NOW)
    world.advance(NOW + SECOND)

    async def play() -> None:
        moving = asyncio.ensure_future(world.set_switch(DISTANCE, "open", "me"))
        await asyncio.sleep(0)
        for _ in range(3):
            world.advance(world.now + SECOND)
        # Somebody has broken a node that is still to come.
        last = world.cluster.members[-1]
        assert world.orders.policies[0].nodes[last.name].phase == "Pending"
        world.orders._policies[NAME] = world.orders._policies[NAME].with_entry(
            last.name, NodeStatus("Failed", world.orders._policies[NAME].wanted, message="it was broken")
        )
        for _ in range(20):
            world.advance(world.now + SECOND)
            await asyncio.sleep(0)
        with pytest.raises(SwitchError, match="all kubelets were put back"):
            await moving

    asyncio.run(play())
    assert options(world) == {()}
    assert distance(world).status == "close"
    assert "all kubelets were put back" in str(world.changes[-1].problem)


def test_who_calls_the_order_back_ends_the_switch() -> None:
    world = LabWorld(NOW)
    world.advance(NOW + SECOND)

    async def play() -> None:
        moving = asyncio.ensure_future(world.set_switch(DISTANCE, "open", "me"))
        await asyncio.sleep(0)
        with pytest.raises(SwitchError, match="being moved already"):
            await world.set_switch(DISTANCE, "open", "you")
        world.advance(world.now + SECOND)
        await world.orders.change(NAME, "RollBack")
        world.advance(world.now + 40 * SECOND)
        with pytest.raises(SwitchError, match="called back"):
            await moving
        assert options(world) == {()}

    asyncio.run(play())
