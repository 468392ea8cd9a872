"""What one caller asks for keeps nobody else waiting."""

from __future__ import annotations

import asyncio
import threading

import httpx2
import pytest

from numaware.serve.console.app import application
from numaware.serve.console.turns import SharedAnswers, Slots
from numaware.serve.problems import ProblemError
from support.console_world import client, shared_console

POD = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}]}}"
LISTS = "x0: &x0 " + POD + "\n" + "".join(
    f"x{n}: &x{n} {{kind: List, items: [{', '.join([f'*x{n - 1}'] * 100)}]}}\n" for n in range(1, 5)
)  # fmt: skip
BOMBS = {
    "lists in lists": LISTS + "kind: List\nitems: [*x4]\n",
    "one list": f"x0: &x0 {POD}\nkind: List\nitems: [{'*x0,' * 60_000}]\n",
}
HEAVY = (
    "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: ["
    + ", ".join(
        f"{{name: c{n}, resources: {{limits: {{cpu: 500m, memory: 1Mi, nvidia.com/gpu: 1}}}}}}"
        for n in range(250)
    )
    + "]}}"
)


@pytest.mark.parametrize("path", ["whatif", "explain"])
@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_what_aliases_repeat_without_end_is_one_clear_refusal(path: str, text: str) -> None:
    answer = client().post(f"/api/v1/{path}", json={"manifest": text, "node": "gpu-1"})
    assert answer.status_code == 422
    assert "aliases repeat more than 50000 values" in answer.json()["detail"]


def test_of_a_list_that_is_not_too_long_only_the_first_pod_is_read() -> None:
    text = f"x0: &x0 {POD}\nkind: List\nitems: [{'*x0,' * 2000}]\n"
    assert client().post("/api/v1/whatif", json={"manifest": text}).json()["pod"]["name"] == "default/a"


@pytest.mark.parametrize("path", ["whatif", "explain"])
def test_others_are_answered_while_a_large_pod_is_judged(path: str) -> None:
    """Counted, not timed: how often the loop comes round to somebody else's call before the answer is there."""
    rounds = 0

    async def run() -> None:
        nonlocal rounds
        transport = httpx2.ASGITransport(app=application(shared_console()))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as caller:
            body = {"manifest": HEAVY, "node": "gpu-1"}
            asked = asyncio.create_task(caller.post(f"/api/v1/{path}", json=body, timeout=60))
            while not asked.done():
                assert (await caller.get("/healthz")).status_code == 200
                rounds += 1
                await asyncio.sleep(0.001)
            assert (await asked).status_code == 200

    asyncio.run(run())
    assert rounds > 2


def test_a_call_that_takes_too_long_is_given_up_and_its_slot_is_free_when_its_thread_ends() -> None:
    end = threading.Event()

    async def run() -> None:
        slots = Slots(1, 0.2)
        for _ in range(2):
            with pytest.raises(ProblemError, match="takes longer") as refused:
                await slots.run(end.wait)
            assert refused.value.status == 503
        end.set()
        async with asyncio.timeout(30):
            while True:
                try:
                    assert await slots.run(int, "7") == 7
                except ProblemError:
                    continue
                break

    asyncio.run(run())


def test_what_a_call_raises_comes_out() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        asyncio.run(Slots(1, 10).run(int, "x"))


def test_what_many_ask_is_worked_out_once_though_the_first_of_them_goes_away() -> None:
    begun = []

    async def run() -> list[str]:
        answers: SharedAnswers[str] = SharedAnswers(2)
        go = asyncio.Event()

        async def work() -> str:
            begun.append("work")
            await go.wait()
            return "answer"

        asked = [asyncio.create_task(answers.answer("question", work)) for _ in range(3)]
        await asyncio.sleep(0)
        asked[0].cancel()
        go.set()
        heard = await asyncio.gather(*asked[1:])
        return [*heard, await answers.answer("question", work)]

    assert asyncio.run(run()) == ["answer"] * 3
    assert begun == ["work"]


def test_work_that_failed_is_begun_anew_for_who_asks_next() -> None:
    async def run() -> str:
        answers: SharedAnswers[str] = SharedAnswers(2)

        async def fails() -> str:
            raise ProblemError(503, "too long")

        async def works() -> str:
            return "answer"

        with pytest.raises(ProblemError):
            await answers.answer("question", fails)
        return await answers.answer("question", works)

    assert asyncio.run(run()) == "answer"


def test_work_that_failed_when_nobody_waited_any_more_is_begun_anew_for_who_asks_next() -> None:
    async def run() -> str:
        answers: SharedAnswers[str] = SharedAnswers(2)
        go = asyncio.Event()

        async def fails() -> str:
            await go.wait()
            raise ProblemError(503, "too long")

        async def works() -> str:
            return "answer"

        asked = asyncio.create_task(answers.answer("question", fails))
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.wait((asked,))
        go.set()
        for _ in range(3):
            await asyncio.sleep(0)
        return await answers.answer("question", works)

    assert asyncio.run(run()) == "answer"


def test_no_more_answers_are_kept_than_asked_for() -> None:
    begun = []

    async def run() -> None:
        answers: SharedAnswers[str] = SharedAnswers(2)
        for question in ("a", "b", "b", "c", "a"):

            async def work(question: str = question) -> str:
                begun.append(question)
                return question

            assert await answers.answer(question, work) == question

    asyncio.run(run())
    assert begun == ["a", "b", "c", "a"]
