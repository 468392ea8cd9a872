from __future__ import annotations

import asyncio
from typing import Any

import pytest

from numaware.serve.crew import Crew
from numaware.serve.lines import CALLS


class Scene:
    """A crew whose calls take as many turns of the event loop as they say."""

    def __init__(self) -> None:
        self.crew: Crew[tuple[str, int]] = Crew(self.call)
        self.done: list[str] = []
        self.now = 0
        self.most = 0

    async def call(self, node: str, what: tuple[str, int]) -> None:
        name, turns = what
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            for _ in range(turns):
                await asyncio.sleep(0)
            if name == "broken":
                raise RuntimeError(node)
        finally:
            self.now -= 1
        self.done.append(name)


def test_calls_for_one_node_keep_their_order_and_other_nodes_do_not_wait() -> None:
    async def play() -> Scene:
        scene = Scene()
        async with scene.crew.at_work():
            for node, name, turns in (("a", "a1", 9), ("a", "a2", 1), ("b", "b1", 3), ("a", "a3", 1)):
                scene.crew.give(node, (name, turns))
            assert scene.crew.left == 4
        return scene

    scene = asyncio.run(play())
    assert scene.done == ["b1", "a1", "a2", "a3"]
    assert scene.crew.left == 0


def test_only_so_many_calls_are_made_at_once_and_as_many_as_that() -> None:
    async def play() -> Scene:
        scene = Scene()
        async with scene.crew.at_work():
            for number in range(3 * CALLS):
                scene.crew.give(f"n{number}", (str(number), 3))
        return scene

    scene = asyncio.run(play())
    assert (scene.most, len(scene.done)) == (CALLS, 3 * CALLS)


def test_one_can_wait_until_few_are_left() -> None:
    async def play() -> None:
        scene = Scene()
        async with scene.crew.at_work():
            await scene.crew.until(0)
            for number in range(10):
                scene.crew.give("n", (str(number), 2))
            await scene.crew.until(4)
            assert (scene.crew.left, len(scene.done)) == (4, 6)
            scene.crew.give("n", ("late", 0))
            await scene.crew.until(0)
            assert scene.done[-1] == "late"

    asyncio.run(play())


def test_who_is_cancelled_still_waits_for_what_was_given() -> None:
    async def play() -> Scene:
        scene = Scene()

        async def work() -> None:
            async with scene.crew.at_work():
                for number in range(2 * CALLS):
                    scene.crew.give(f"n{number % 3}", (str(number), 2))
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) == 1, "no hand is left"
        return scene

    assert len(asyncio.run(play()).done) == 2 * CALLS


def test_a_call_that_breaks_is_told_and_the_next_one_for_its_node_is_made() -> None:
    told: list[dict[str, Any]] = []

    async def play() -> Scene:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        scene = Scene()
        async with scene.crew.at_work():
            scene.crew.give("n", ("broken", 1))
            scene.crew.give("n", ("next", 1))
        return scene

    assert asyncio.run(play()).done == ["next"]
    assert [str(context["exception"]) for context in told] == ["n"]
