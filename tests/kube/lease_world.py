"""Candidates for a lease in a world whose time is made: sleeps, slow calls and stopped processes take no real time.

The world holds the one record and the time of everything. Each candidate sees it through a client of its own, whose calls
may be slow, fail, or fail after they were done, and by a clock of its own, set to whatever it likes.
"""

from __future__ import annotations

import asyncio
import copy
import heapq
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import msgspec

from kube.fake_api_server import seeded
from numaware.kube.client import Client
from numaware.kube.config import Connection
from numaware.kube.errors import ApiError
from numaware.kube.lease import Election, LeaseTimes
from numaware.kube.resources import LEASES

Fault = tuple[float, str]
FINE: Fault = (0.01, "")


class World:
    def __init__(self) -> None:
        self.time = 0.0
        self.lease: dict[str, Any] | None = None
        self.revision = 0
        self.candidates: list[Candidate] = []
        self.most_at_once = 0
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    async def sleep(self, seconds: float) -> None:
        """Wait until the world's time is that much later."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.time + seconds, next(self._order), woken))
        await woken

    async def play(self, seconds: float) -> None:
        """Let so much time pass, and look at every step how many believe that they lead."""
        end = self.time + seconds
        await self._settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            self.time, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
            await self._settle()
            self.most_at_once = max(self.most_at_once, len(self.leaders))
        self.time = end
        await self._settle()

    async def _settle(self) -> None:
        """Let everything run that can run without time passing."""
        for _ in range(30):
            await asyncio.sleep(0)

    async def end(self) -> None:
        """Stop everyone, so that no task is left that waits for a time that never comes."""
        for one in self.candidates:
            one.task.cancel()
        await self.play(100)

    @property
    def leaders(self) -> list[str]:
        return [one.election.identity for one in self.candidates if one.election.holds]

    # What the server does, with the conflicts of the real one.

    def read(self) -> dict[str, Any]:
        if self.lease is None:
            raise ApiError(404, "NotFound", "no such lease")
        return copy.deepcopy(self.lease)

    def write(self, body: dict[str, Any], *, create: bool) -> dict[str, Any]:
        if create and self.lease is not None:
            raise ApiError(409, "AlreadyExists", "there is one")
        if not create:
            held = self.read()["metadata"]["resourceVersion"]
            if body["metadata"].get("resourceVersion") != held:
                raise ApiError(409, "Conflict", "it has been modified")
        if self.lease is None or self.lease["spec"] != body["spec"]:
            self.revision += 1
        made = copy.deepcopy(body)
        made["metadata"]["resourceVersion"] = str(self.revision)
        self.lease = made
        return copy.deepcopy(made)


class WorldClient(Client):
    """Calls that take the world's time, and go wrong as `fault` says: before they reach the server, or after."""

    def __init__(self, world: World, fault: Callable[[], Fault]) -> None:
        super().__init__(Connection("http://world"))
        self.world = world
        self.fault = fault

    async def _send(
        self, method: str, path: str, *, body: bytes | None = None, within: float | None = None, **_: Any
    ) -> bytes:
        assert path.startswith(LEASES.path("kube-system"))
        if body is None:
            return await self._call(self.world.read, within)
        made = msgspec.json.decode(body)
        return await self._call(lambda: self.world.write(made, create=method == "POST"), within)

    async def _call(self, do: Callable[[], dict[str, Any]], within: float | None) -> bytes:
        """Half the time to get there, half to come back; a call that was given up may still arrive."""
        seconds, fault = self.fault()
        if within is not None and seconds > within:
            asyncio.get_running_loop().create_task(self._late(do, seconds))
            await self.world.sleep(within)
            raise ApiError(0, "Timeout", "the server did not answer in time")
        await self.world.sleep(seconds / 2)
        if fault == "before":
            raise ApiError(0, "Unreachable", "nobody there", sent=False)
        answer = do()
        await self.world.sleep(seconds / 2)
        if fault == "after":
            raise ApiError(0, "Broken", "the connection broke")
        return msgspec.json.encode(answer)

    async def _late(self, do: Callable[[], dict[str, Any]], seconds: float) -> None:
        await self.world.sleep(seconds)
        with suppress(ApiError):
            do()


class Candidate:
    """One process that wants to lead: its clocks, its faults, and what it did."""

    def __init__(
        self,
        world: World,
        name: str,
        *,
        offset: float = 0.0,
        wall: Callable[[float], float] = lambda time: time,
        fault: Callable[[], Fault] = lambda: FINE,
    ) -> None:
        self.world = world
        self.stopped_until = 0.0
        self.log: list[str] = []
        epoch = datetime(2026, 1, 1, tzinfo=UTC)
        self.election = Election(
            WorldClient(world, fault),
            "numaware",
            "kube-system",
            name,
            times=LeaseTimes(15.0, 10.0, 2.0),
            on_leader=lambda leader: self.log.append(f"sees {leader}"),
            on_problem=self.log.append,
            dice=seeded(len(world.candidates)),
            clock=lambda: world.time + offset,
            now=lambda: epoch + timedelta(seconds=wall(world.time)),
            sleep=self.sleep,
        )
        world.candidates.append(self)
        self.task = asyncio.create_task(self.election.lead(self.work))

    async def sleep(self, seconds: float) -> None:
        await self.world.sleep(seconds)
        while self.world.time < self.stopped_until:
            await self.world.sleep(self.stopped_until - self.world.time)

    async def work(self) -> None:
        self.log.append("works")
        try:
            await asyncio.Event().wait()
        finally:
            self.log.append("ends")

    async def end(self) -> BaseException | None:
        """Stop it as a signal would, and tell what it died of, if it had before."""
        self.task.cancel()
        await self.world.play(5)
        return self.task.exception() if self.task.done() and not self.task.cancelled() else None

    def kill(self) -> None:
        """Stop it as `kill -9` does: it does nothing more, not even hand over."""
        self.election._renewed = None
        self.task.cancel()
