from __future__ import annotations

import asyncio
from typing import Any

import pytest

from numaware.serve.bind_queue import CALLS, BindQueue


class Scene:
    """A queue whose calls take as many turns of the event loop as they say."""

    def __init__(self, calls: int = CALLS) -> None:
        self.queue: BindQueue[tuple[str, int], str] = BindQueue(self.call, calls)
        self.done: list[str] = []
        self.now = 0
        self.most = 0

    async def call(self, node: str, item: tuple[str, int]) -> str:
        name, turns = item
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
        return f"{name} on {node}"


def test_calls_for_one_node_keep_their_order_and_other_nodes_do_not_wait() -> None:
    async def play() -> Scene:
        scene = Scene()
        for node, name, turns in (("a", "a1", 9), ("a", "a2", 1), ("b", "b1", 3), ("a", "a3", 1)):
            scene.queue.put(node, (name, turns))
        assert scene.queue.left == 4
        await scene.queue.until(0)
        return scene

    scene = asyncio.run(play())
    assert scene.done == ["b1", "a1", "a2", "a3"]
    assert scene.queue.left == 0


def test_who_waits_for_a_call_keeps_the_order_of_the_node_too() -> None:
    async def play() -> tuple[list[str], list[str]]:
        scene = Scene()
        first = scene.queue.ask("a", ("a1", 9))
        scene.queue.put("a", ("a2", 1))
        results = await asyncio.gather(
            first, scene.queue.ask("b", ("b1", 3)), scene.queue.ask("a", ("a3", 1))
        )
        return list(results), scene.done

    assert asyncio.run(play()) == (["a1 on a", "b1 on b", "a3 on a"], ["b1", "a1", "a2", "a3"])


def test_only_so_many_calls_are_made_at_once_and_as_many_as_that() -> None:
    async def play() -> Scene:
        scene = Scene(calls=3)
        for number in range(20):
            scene.queue.put(f"n{number}", (str(number), 3))
        await scene.queue.until(0)
        return scene

    scene = asyncio.run(play())
    assert (scene.most, len(scene.done)) == (3, 20)


def test_what_is_put_in_at_the_very_moment_a_worker_ends_is_done_as_well() -> None:
    async def play() -> list[str]:
        scene = Scene(calls=1)
        for number in range(50):
            # Resumes in the same turn of the event loop in which the last worker has nothing left to do.
            await scene.queue.ask(f"n{number}", (str(number), number % 3))
        return scene.done

    assert asyncio.run(asyncio.wait_for(play(), 10)) == [str(number) for number in range(50)]


def test_one_can_wait_until_few_are_left() -> None:
    async def play() -> None:
        scene = Scene()
        await scene.queue.until(0)
        for number in range(10):
            scene.queue.put("n", (str(number), 2))
        await scene.queue.until(4)
        assert (scene.queue.left, len(scene.done)) == (4, 6)
        scene.queue.put("n", ("late", 0))
        await scene.queue.until(0)
        assert scene.done[-1] == "late"

    asyncio.run(play())


def test_who_is_cancelled_while_it_waits_stops_neither_its_call_nor_the_next() -> None:
    async def play() -> list[str]:
        scene = Scene()

        async def wait(name: str) -> str:
            return await asyncio.shield(scene.queue.ask("n", (name, 2)))

        first, second = (asyncio.create_task(wait(name)) for name in ("first", "second"))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await second == "second on n"
        return scene.done

    assert asyncio.run(play()) == ["first", "second"]


def test_no_worker_is_left_when_nothing_is_left_to_do() -> None:
    async def play() -> None:
        scene = Scene()
        for number in range(2 * CALLS):
            scene.queue.put(f"n{number % 3}", (str(number), 2))
        await scene.queue.until(0)
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(play())


def test_a_call_that_breaks_is_told_and_the_next_one_for_its_node_is_made() -> None:
    told: list[dict[str, Any]] = []

    async def play() -> Scene:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        scene = Scene()
        scene.queue.put("n", ("broken", 1))
        with pytest.raises(RuntimeError, match="n"):
            await scene.queue.ask("n", ("broken", 1))
        scene.queue.put("n", ("next", 1))
        await scene.queue.until(0)
        return scene

    assert asyncio.run(play()).done == ["next"]
    assert [str(context["exception"]) for context in told] == ["n"], "who waits hears it, else the event loop"
