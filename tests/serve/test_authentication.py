"""Who the cluster lets in: what is asked, what is kept and for how long, and what happens when nobody answers."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from structlog.testing import capture_logs

from numaware.kube.errors import ApiError
from numaware.kube.reviews import Caller
from numaware.serve import authentication
from numaware.serve.authentication import AUDIENCE, PATHS, ClusterAuthentication
from numaware.serve.guard import Ask
from numaware.serve.problems import ProblemError
from support.console_world import client, console

TOKEN = f"token-{uuid.UUID(int=3)}"
NARROW = f"narrow-{uuid.UUID(int=4)}"
WALL = "/api/v1/wall"
SWITCH = "/api/v1/policies/numaaware"


class FakeReviewer:
    """Knows Ada by two tokens, one of them for this audience only, and lets her do what is in `rights`."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.tokens = {TOKEN: "", NARROW: AUDIENCE}
        self.rights = {f"get {PATHS}{WALL}"}
        self.away = False
        self.busy = False

    async def bearer(self, token: str, audience: str = "") -> Caller | None:
        await self._answer(f"who {token} {audience}".strip())
        return Caller("ada", groups=("staff",)) if self.tokens.get(token) == audience else None

    async def may(self, caller: Caller, verb: str, path: str) -> bool:
        assert caller == Caller("ada", groups=("staff",))
        await self._answer(f"may {verb} {path}")
        return f"{verb} {path}" in self.rights

    async def _answer(self, question: str) -> None:
        self.asked.append(question)
        if self.busy:
            await asyncio.sleep(3600)
        if self.away:
            raise ApiError(0, "Unreachable", "nobody listens there")


class World:
    """A gate with its reviewer and a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.reviewer = FakeReviewer()
        self.gate = ClusterAuthentication(self.reviewer, lambda: self.now)

    def admit(self, token: str = TOKEN, verb: str = "get", path: str = WALL, at: str = "192.0.2.1") -> Any:
        """The name of who is let in, or the status of who is not."""
        try:
            return asyncio.run(self.gate.admit(Ask(token, verb, path, at)))
        except ProblemError as error:
            return error.status


@pytest.fixture
def world() -> World:
    return World()


def test_who_is_known_and_may_comes_in_by_name(world: World) -> None:
    assert world.admit() == "ada"
    assert world.reviewer.asked == [f"who {TOKEN}", f"may get {PATHS}{WALL}"]


def test_a_token_for_this_console_alone_is_good_too(world: World) -> None:
    assert world.admit(NARROW) == "ada"
    assert world.reviewer.asked[:2] == [f"who {NARROW}", f"who {NARROW} {AUDIENCE}"]


@pytest.mark.parametrize("token", ["", "x" * (authentication._LONGEST_TOKEN + 1)])
def test_what_can_be_no_token_is_not_even_asked_about(token: str, world: World) -> None:
    assert world.admit(token) == 401
    assert world.reviewer.asked == []


def test_every_verb_and_path_is_asked_about_by_itself(world: World) -> None:
    assert world.admit(verb="put", path=SWITCH) == 403
    assert world.admit() == "ada"
    assert world.admit(path="/api/v1/cluster") == 403
    world.reviewer.rights.add(f"get {PATHS}{SWITCH}")
    assert world.admit(path=SWITCH) == "ada"
    assert world.admit(verb="put", path=SWITCH) == 403


def test_a_path_without_end_is_not_passed_on(world: World) -> None:
    assert world.admit(path="/" + "x" * 5000) == 414
    assert world.reviewer.asked == []


def test_answers_are_kept_for_some_seconds(world: World) -> None:
    for _ in range(5):
        assert world.admit() == "ada"
        world.now += 1
    assert len(world.reviewer.asked) == 2


def test_a_right_that_is_taken_away_is_gone_after_that(world: World) -> None:
    assert world.admit() == "ada"
    world.reviewer.rights.clear()
    world.now += authentication.SECONDS_ALLOWED - 0.1
    assert world.admit() == "ada"
    world.now += 0.2
    assert world.admit() == 403
    world.reviewer.rights.add(f"get {PATHS}{WALL}")
    world.now += authentication.SECONDS_ALLOWED
    assert world.admit() == "ada"


def test_a_token_that_is_taken_back_is_worth_nothing_after_that(world: World) -> None:
    assert world.admit() == "ada"
    world.reviewer.tokens.clear()
    world.now += authentication.SECONDS_KNOWN
    assert world.admit() == 401


def test_a_wrong_token_is_asked_about_again_soon_however_often_it_comes(world: World) -> None:
    late = "granted-a-moment-later"
    assert world.admit(late) == 401
    questions = len(world.reviewer.asked)
    world.reviewer.tokens[late] = ""
    world.now += authentication.SECONDS_WRONG / 2
    assert world.admit(late) == 401
    assert len(world.reviewer.asked) == questions
    world.now += authentication.SECONDS_WRONG / 2
    assert world.admit(late) == "ada"
    assert authentication.SECONDS_WRONG < authentication.SECONDS_KNOWN


def test_nobody_comes_in_while_the_cluster_is_away(world: World) -> None:
    world.reviewer.away = True
    assert world.admit() == 503
    world.reviewer.away = False
    assert world.admit() == "ada"
    world.reviewer.away = True
    # Who was let in just now is still known; after that, nobody is.
    assert world.admit() == "ada"
    world.now += authentication.SECONDS_ALLOWED
    assert world.admit() == 503


def test_that_it_is_away_is_logged_once(world: World) -> None:
    world.reviewer.away = True
    with capture_logs() as logged:
        for _ in range(5):
            world.admit()
    assert [line["log_level"] for line in logged] == ["error"]
    assert TOKEN not in str(logged)


def test_a_cluster_that_says_nothing_is_not_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "SECONDS_TO_ASK", 0.05)
    world.reviewer.busy = True
    assert world.admit() == 503


def test_callers_who_come_together_cost_few_questions(world: World) -> None:
    async def crowd() -> list[str]:
        ask = Ask(TOKEN, "get", WALL, "192.0.2.1")
        return list(await asyncio.gather(*(world.gate.admit(ask) for _ in range(40))))

    assert set(asyncio.run(crowd())) == {"ada"}
    assert len(world.reviewer.asked) <= 2 * authentication._AT_ONCE


def test_guesses_are_limited_and_do_not_crowd_out_who_is_known(world: World) -> None:
    assert world.admit() == "ada"
    found = [world.admit(f"guess-{number}") for number in range(200)]
    assert found.count(429) > 100
    assert world.admit() == "ada"
    assert world.admit("guess", at="192.0.2.2") == 401


def test_what_is_kept_is_bounded_and_holds_no_token(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "_MOST_KEPT", 10)
    for number in range(100):
        world.now += 1
        world.admit(f"wrong-{number}")
        world.admit(path=f"/{number}")
    known, wrong, allowed = (vars(world.gate)[name]._found for name in ("_known", "_wrong", "_allowed"))
    assert (len(known), len(wrong), len(allowed)) == (1, 10, 10)
    assert TOKEN not in f"{vars(world.gate)}{known}{wrong}{allowed}"


# Through the whole console


def test_the_console_asks_for_a_token_of_the_cluster(world: World) -> None:
    answer = client(gate=world.gate).get(WALL)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="kubernetes"'
    assert answer.headers["content-type"] == "application/problem+json"


def test_who_may_look_may_not_switch_and_is_told_what_is_missing(world: World) -> None:
    found = console(nodes=2)
    guarded = client(found, gate=world.gate)
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert guarded.get(WALL, headers=bearer).status_code == 200
    assert guarded.head(WALL, headers=bearer).status_code == 200
    with capture_logs() as logged:
        answer = guarded.put(SWITCH, json={"status": "close"}, headers=bearer)
    assert answer.status_code == 403
    assert answer.json()["detail"] == f"ada may not put {PATHS}{SWITCH}"
    assert found.world.switches[0].status == "open"
    assert [(line["event"], line["by"]) for line in logged] == [("refused", "ada")]
    assert TOKEN not in str(logged)


@pytest.mark.parametrize("path", [SWITCH, "/rest/scheduling/v1/numaaware"])
def test_who_may_switch_is_named_in_the_history(path: str, world: World) -> None:
    found = console(nodes=2)
    world.reviewer.rights.add(f"put {PATHS}{path}")
    answer = client(found, gate=world.gate).put(
        path, json={"status": "close"}, headers={"authorization": f"Bearer {TOKEN}"}
    )
    assert answer.status_code == 200, answer.text
    assert (found.world.changes[-1].after, found.world.changes[-1].by) == ("close", "ada")


def test_a_cluster_that_is_away_is_told_as_a_problem(world: World) -> None:
    world.reviewer.away = True
    answer = client(gate=world.gate).get(WALL, headers={"authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert "retry-after" in answer.headers
