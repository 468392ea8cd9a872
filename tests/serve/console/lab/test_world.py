"""The lab's world: the same life for the same seed, and books that add up whatever happens in it."""

from __future__ import annotations

import asyncio
from itertools import islice

import pytest
from msgspec.structs import replace

from numaware.schedule.engine import Decision
from numaware.schedule.ledger import placement_of
from numaware.schedule.node_facts import pod_requests
from numaware.serve.console.api.routes import Console
from numaware.serve.console.lab.world import HOUR, LabWorld
from numaware.serve.console.world import AFFINITY
from numaware.simulate.pod_churn import coming
from numaware.simulate.policies import POLICIES, Ours
from numaware.twin.topology.hints import Hint
from numaware.workload.pod import Pod
from support.console_world import NOW, client


def life(seed: int, steps: int) -> list[tuple[object, ...]]:
    world = LabWorld(NOW, seed=seed)
    for step in range(1, steps + 1):
        world.advance(NOW + step * HOUR // steps)
    return [(event.time, event.kind, event.pod, event.node, event.reason) for event in world.events]


def test_equal_seeds_lead_equal_lives_however_often_one_looks() -> None:
    assert life(1, 1) == life(1, 60)
    assert life(1, 1) != life(2, 1)


def test_pods_come_in_order_and_never_twice() -> None:
    first = list(islice(coming(1, 0, 30), 500))
    assert [one.time for one in first] == sorted(one.time for one in first)
    assert len({one.pod.uid for one in first}) == 500


def test_the_lab_opens_its_switch_after_a_while_and_tells_of_it() -> None:
    world = LabWorld(NOW)
    seen = []
    for moment in (NOW + HOUR // 2, NOW + HOUR):
        world.advance(moment)
        seen.append(world.switches[0].status)
    assert seen == ["close", "open"]
    (change,) = world.changes
    assert (change.switch, change.before, change.after, change.by) == (AFFINITY, "close", "open", "lab")


def test_what_pods_ask_for_adds_up_on_every_node() -> None:
    world = LabWorld(NOW)
    world.advance(NOW + HOUR)
    assert world.stories.keys() == world.cluster.where.keys()
    for member in world.cluster:
        total: dict[str, int] = {}
        for pod in member.pods.values():
            for name, amount in pod_requests(pod):
                total[name] = total.get(name, 0) + amount
        assert {name: amount for name, amount in member.load.used.items() if amount} == total
        assert all(amount <= member.allocatable[name] for name, amount in total.items())


def test_what_was_predicted_is_what_was_seen() -> None:
    world = LabWorld(NOW)
    world.advance(NOW + HOUR)
    predicted = [story for story in world.stories.values() if story.predicted is not None]
    assert predicted
    assert all(story.predicted == story.observed for story in predicted)


class Misled(Ours):
    """Foresees the last NUMA node for every pod."""

    def decide(self, pod: Pod, now: int) -> Decision:
        decision = super().decide(pod, now)
        if decision.node is None:
            return decision
        last = 1 << len(self.engine.cluster.by_name[decision.node].node.kubelet.layout.ids) - 1
        return replace(decision, hints=tuple(Hint(last, True) for _ in decision.hints))


def test_a_prediction_that_does_not_come_true_is_shown_as_a_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICIES, "numaware", lambda setting: Misled(setting.cluster))
    console = Console(world := LabWorld(NOW), lambda: world.now)
    asyncio.run(world.set_switch(AFFINITY, "open", "test"))
    world.advance(NOW + 60_000)
    missed = {uid for uid, story in world.stories.items() if story.predicted != story.observed}
    assert 0 < len(missed) < len(world.stories)
    listed = client(console).get("/api/v1/pods", params={"limit": "500"}).json()["items"]
    shown = {f"{one['namespace']}/{one['name']}" for one in listed if one["predicted"] is False}
    assert shown == missed
    for uid, member in world.cluster.where.items():
        assert placement_of(member.node, member.pods[uid]) == world.stories[uid].observed


def test_nobody_waits_and_runs_at_once() -> None:
    world = LabWorld(NOW)
    for minute in range(60):
        world.advance(NOW + minute * 60_000)
        assert not world.waiting.keys() & world.cluster.where.keys()
