"""Whatever goes wrong on the wire, in the clocks and in the processes: never two leaders, and in the end one."""

from __future__ import annotations

import asyncio
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from kube.fake_api_server import seeded
from kube.lease_world import FINE, Candidate, Fault, World

SECONDS = (0.2, 1.0, 3.0, 4.9, 8.0, 20.0)
FAULTS = ("", "before", "after")


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), candidates=st.integers(2, 4))
def test_never_do_two_lead_and_after_the_trouble_one_does(seed: int, candidates: int) -> None:
    async def played() -> None:
        world = World()
        try:
            await play(world, seeded(seed), candidates)
        finally:
            await world.end()

    asyncio.run(played())


async def play(world: World, dice: random.Random, candidates: int) -> None:
    trouble = True

    cut_until: dict[int, float] = {}

    def enter(number: int) -> None:
        def fault() -> Fault:
            if world.time < cut_until.get(number, 0.0):
                return (0.01, "before")
            return (dice.choice(SECONDS), dice.choice(FAULTS)) if trouble and dice.random() < 0.2 else FINE

        offset, skew = dice.uniform(-1e6, 1e6), dice.uniform(-2, 2)
        Candidate(world, str(number), offset=offset, wall=lambda time: skew * time, fault=fault)

    for number in range(candidates):
        enter(number)
    for number in range(candidates, candidates + 8):
        await world.play(dice.uniform(0, 30))
        one = next((one for one in world.candidates if one.election.holds), dice.choice(world.candidates))
        what = dice.choice(["stop", "kill", "end", "cut"])
        if what == "cut":
            cut_until[int(one.election.identity)] = world.time + dice.uniform(5, 20)
        elif what == "stop":
            one.stopped_until = world.time + dice.uniform(0, 40)
        elif what == "kill":
            one.kill()
            world.candidates.remove(one)
        elif what == "end":
            one.task.cancel()
        if one.task.done() or what in {"kill", "end"}:
            enter(number)
    trouble = False
    await world.play(100)
    assert world.most_at_once <= 1
    waiting = [one for one in world.candidates if not one.task.done()]
    assert not waiting or len(world.leaders) == 1
