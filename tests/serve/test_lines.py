from __future__ import annotations

import asyncio

import pytest

from numaware.serve.lines import Lines


def test_calls_for_one_node_keep_their_order_and_other_nodes_do_not_wait() -> None:
    done: list[str] = []

    async def run() -> None:
        lines = Lines()

        async def call(name: str, node: str, steps: int) -> None:
            async with lines.turn(node):
                for _ in range(steps):
                    await asyncio.sleep(0)
                done.append(name)

        await asyncio.gather(call("a1", "a", 9), call("a2", "a", 1), call("b1", "b", 3), call("a3", "a", 1))

    asyncio.run(run())
    assert done == ["b1", "a1", "a2", "a3"]


def test_calls_that_fail_or_are_cancelled_let_the_next_one_through() -> None:
    done: list[str] = []

    async def run() -> None:
        lines = Lines()

        async def works() -> None:
            async with lines.turn("n"):
                done.append("works")

        async def breaks() -> None:
            async with lines.turn("n"):
                await asyncio.sleep(0)
                raise RuntimeError

        first, second, third = (asyncio.create_task(each()) for each in (breaks, works, works))
        never_started = asyncio.create_task(works())
        never_started.cancel()
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait((first, second, third, never_started), timeout=60)
        with pytest.raises(RuntimeError):
            first.result()

    asyncio.run(run())
    assert done == ["works"]


def test_only_so_many_calls_are_made_at_once() -> None:
    async def run() -> int:
        lines = Lines(calls=3)
        now = most = 0

        async def call(node: str) -> None:
            nonlocal now, most
            async with lines.turn(node):
                now += 1
                most = max(most, now)
                await asyncio.sleep(0)
                now -= 1

        await asyncio.gather(*(call(f"n{number}") for number in range(20)))
        return most

    assert asyncio.run(run()) == 3


def test_a_turn_that_comes_together_with_a_cancellation_goes_to_the_next() -> None:
    done: list[str] = []

    async def run() -> None:
        lines = Lines(calls=1)
        gate = asyncio.Event()
        tasks: dict[str, asyncio.Task[None]] = {}

        async def call(name: str, node: str, then_cancels: str = "") -> None:
            async with lines.turn(node):
                await gate.wait()
                done.append(name)
            if then_cancels:
                tasks[then_cancels].cancel()

        for name, node, then_cancels in (
            ("first", "n", "second"),
            ("second", "n", ""),
            ("third", "n", ""),
            # Has its turn, and waits for a call to be over.
            ("other", "m", ""),
            ("late", "m", ""),
        ):
            tasks[name] = asyncio.create_task(call(name, node, then_cancels))
        await asyncio.sleep(0)
        tasks["other"].cancel()
        gate.set()
        await asyncio.wait(tasks.values(), timeout=60)
        assert {name for name, task in tasks.items() if task.cancelled()} == {"second", "other"}

    asyncio.run(run())
    assert sorted(done) == ["first", "late", "third"]
