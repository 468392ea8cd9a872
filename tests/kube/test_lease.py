from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from kube.fake_api_server import connection, fake_api_server, until
from kube.lease_world import FINE, Candidate, Fault, World
from numaware.kube.client import Client
from numaware.kube.config import Connection
from numaware.kube.lease import Election, LeadershipLost, LeaseTimes
from numaware.kube.resources import LEASES


def run(story: Callable[[World], Awaitable[None]]) -> None:
    async def play() -> None:
        world = World()
        try:
            await story(world)
        finally:
            await world.end()
        assert world.most_at_once <= 1

    asyncio.run(play())


def spec(world: World) -> dict[str, object]:
    assert world.lease is not None
    told: dict[str, object] = world.lease["spec"]
    return told


def test_the_first_to_come_leads_and_the_others_wait_for_as_long_as_it_renews() -> None:
    async def story(world: World) -> None:
        first, second = Candidate(world, "a"), Candidate(world, "b")
        await world.play(300)
        assert world.leaders == ["a"]
        assert first.log == ["sees a", "works"]
        assert second.log == ["sees a"]
        assert spec(world)["leaseTransitions"] == 0
        assert spec(world)["leaseDurationSeconds"] == 15
        assert spec(world)["acquireTime"] == "2026-01-01T00:00:00.005000Z"
        assert second.election.leader == "a"

    run(story)


def test_a_leader_that_stops_hands_over_at_once_after_its_work_has_ended() -> None:
    async def story(world: World) -> None:
        first, second = Candidate(world, "a"), Candidate(world, "b")
        await world.play(20)
        assert await first.end() is None
        assert first.log[-2:] == ["ends", "sees "]
        assert world.leaders == ["b"]
        assert "works" in second.log
        assert spec(world)["leaseTransitions"] == 1

    run(story)


def test_a_leader_that_is_killed_is_followed_when_its_lease_has_run_out_and_not_before() -> None:
    async def story(world: World) -> None:
        first, second = Candidate(world, "a"), Candidate(world, "b")
        await world.play(20)
        first.kill()
        await world.play(11)
        assert world.leaders == []
        assert "works" not in second.log
        await world.play(10)
        assert world.leaders == ["b"]

    run(story)


@pytest.mark.parametrize(
    "wall", [lambda _: 0.0, lambda time: time - 86400, lambda time: time + 86400, lambda time: -2 * time]
)
def test_a_clock_that_is_wrong_or_stands_still_takes_nobodys_lead(wall: Callable[[float], float]) -> None:
    async def story(world: World) -> None:
        Candidate(world, "a", wall=wall, offset=1000)
        await world.play(1)
        follower = Candidate(world, "b", offset=-1000)
        await world.play(200)
        assert world.leaders == ["a"]
        assert follower.log == ["sees a"]

    run(story)


def test_a_leader_that_was_stopped_for_long_knows_at_once_that_it_does_not_lead_any_more() -> None:
    async def story(world: World) -> None:
        first, second = Candidate(world, "a"), Candidate(world, "b")
        await world.play(20)
        first.stopped_until = 60
        await world.play(39)
        assert world.leaders == ["b"]
        assert "ends" not in first.log
        await world.play(5)
        assert isinstance(first.task.exception(), LeadershipLost)
        assert first.log[-1] == "ends"
        assert second.log[-1] == "works"

    run(story)


def test_a_leader_that_cannot_renew_gives_up_before_another_may_lead() -> None:
    async def story(world: World) -> None:
        cut = False

        def fault() -> Fault:
            return (0.01, "before") if cut else FINE

        first, second = Candidate(world, "a", fault=fault), Candidate(world, "b")
        await world.play(20)
        cut = True
        await world.play(7)
        assert not first.task.done()
        await world.play(4)
        assert isinstance(first.task.exception(), LeadershipLost)
        assert first.log[2:] == ["no answer Unreachable: nobody there", "ends"]
        assert world.leaders == []
        await world.play(10)
        assert world.leaders == ["b"]
        assert second.log[-1] == "works"

    run(story)


def test_a_call_that_hangs_leaves_time_to_try_again() -> None:
    async def story(world: World) -> None:
        calls = 0

        def fault() -> Fault:
            nonlocal calls
            calls += 1
            return (60.0, "") if calls == 6 else FINE

        first = Candidate(world, "a", fault=fault)
        await world.play(100)
        assert world.leaders == ["a"]
        assert first.log == ["sees a", "works", "no answer Timeout: the server did not answer in time"]

    run(story)


def test_a_renewal_whose_answer_was_lost_is_recognised_as_our_own() -> None:
    async def story(world: World) -> None:
        calls = 0

        def fault() -> Fault:
            nonlocal calls
            calls += 1
            return (0.01, "after" if calls % 3 == 0 else "")

        Candidate(world, "a", fault=fault)
        await world.play(100)
        assert world.leaders == ["a"]
        assert spec(world)["leaseTransitions"] == 0

    run(story)


def test_others_may_label_the_lease_without_taking_it_away_and_their_labels_stay() -> None:
    async def story(world: World) -> None:
        Candidate(world, "a")
        await world.play(5)
        assert world.lease is not None
        world.lease["metadata"] |= {"labels": {"team": "x"}, "resourceVersion": "999"}
        world.lease["spec"]["strategy"] = "OldestEmulationVersion"
        world.revision = 999
        await world.play(20)
        assert world.leaders == ["a"]
        assert world.lease["metadata"]["labels"] == {"team": "x"}
        assert spec(world)["strategy"] == "OldestEmulationVersion"

    run(story)


def test_a_lease_that_another_took_is_lost_at_the_next_look() -> None:
    async def story(world: World) -> None:
        first = Candidate(world, "a")
        await world.play(5)
        assert world.lease is not None
        world.lease["spec"]["holderIdentity"] = "thief"
        world.lease["metadata"]["resourceVersion"] = str(world.revision + 1)
        world.revision += 1
        await world.play(3)
        assert isinstance(first.task.exception(), LeadershipLost)
        assert world.lease["spec"]["holderIdentity"] == "thief"

    run(story)


def test_a_lease_that_was_removed_is_made_again() -> None:
    async def story(world: World) -> None:
        Candidate(world, "a")
        await world.play(5)
        world.lease = None
        await world.play(3)
        assert world.leaders == ["a"]
        assert spec(world)["holderIdentity"] == "a"

    run(story)


def test_work_that_ends_or_fails_gives_the_lease_back() -> None:
    async def play() -> None:
        async with fake_api_server() as server, Client(connection(server)) as client:

            async def works() -> None:
                assert server.objects[LEASES.path("ns", "l")]["spec"]["holderIdentity"] == "me"

            async def fails() -> None:
                raise ArithmeticError

            await Election(client, "l", "ns", "me").lead(works)
            assert server.objects[LEASES.path("ns", "l")]["spec"]["holderIdentity"] == ""
            with pytest.raises(ArithmeticError):
                await Election(client, "l", "ns", "me").lead(fails)
            assert server.objects[LEASES.path("ns", "l")]["spec"]["holderIdentity"] == ""

    asyncio.run(play())


def test_a_candidate_that_is_stopped_before_it_led_leaves_the_lease_alone() -> None:
    async def play() -> None:
        async with fake_api_server() as server, Client(connection(server)) as client:
            held = {"holderIdentity": "other", "leaseDurationSeconds": 3600}
            server.put(LEASES, "l", "ns", spec=held)
            waiting = Election(client, "l", "ns", "me")
            task = asyncio.create_task(waiting.lead(lambda: asyncio.sleep(0)))
            await until(lambda: waiting.leader == "other")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert server.objects[LEASES.path("ns", "l")]["spec"] == held

    asyncio.run(play())


def test_a_record_that_cannot_be_read_is_told_once() -> None:
    async def play() -> None:
        async with fake_api_server() as server, Client(connection(server)) as client:
            server.put(LEASES, "l", "ns", spec="nonsense")
            told: list[str] = []
            waiting = Election(client, "l", "ns", "me", times=LeaseTimes(retry=0.001), on_problem=told.append)
            task = asyncio.create_task(waiting.lead(lambda: asyncio.sleep(0)))
            await until(lambda: len(server.calls) > 5)
            assert len(told) == 1
            assert "a lease that cannot be read" in told[0]
            server.put(LEASES, "l", "ns", spec=msgspec.json.decode(b"{}"))
            await task

    asyncio.run(play())


def test_times_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="longer"):
        Election(Client(Connection("http://nowhere")), "l", "ns", "me", times=LeaseTimes(10, 10, 2))
