"""Runs of the lab that somebody asked for: one at a time, in a process of their own, so that the page stays quick."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Annotated, Literal

import msgspec

from numaware.errors import InputError
from numaware.schedule.cluster import Cluster
from numaware.sentence import Sentence
from numaware.serve.console.world import NOTHING, Told
from numaware.simulate.clusters import machines_of
from numaware.simulate.pod_churn import MOST_PODS, trace_of
from numaware.simulate.policies import POLICIES
from numaware.simulate.result import Result
from numaware.simulate.run import run

_MOST_RUNS = 20
_MOST_WAITING = 4


class SimulationWish(msgspec.Struct, frozen=True, rename="camel"):
    """Which schedulers to compare on the cluster's machines, empty, and how many pods come."""

    policies: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=9)]
    pods: Annotated[int, msgspec.Meta(ge=1, le=MOST_PODS)] = 600
    seed: Annotated[int, msgspec.Meta(ge=0, le=1 << 31)] = 1


class Simulation(msgspec.Struct, frozen=True, rename="camel"):
    """A comparison: how far it is, and the results so far."""

    id: int
    state: Literal["running", "done", "failed"]
    wish: SimulationWish
    results: tuple[Result, ...]
    problem: Told = NOTHING


class Simulations(msgspec.Struct, frozen=True, rename="camel"):
    """The latest first, and the schedulers there are."""

    items: tuple[Simulation, ...]
    policies: tuple[str, ...]


class Simulator:
    """Keeps the last comparisons and runs those that wait."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.known: OrderedDict[int, Simulation] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        self._pool: ProcessPoolExecutor | None = None
        self._count = 0

    def start(self, wish: SimulationWish) -> Simulation:
        """Begin a comparison; `InputError` for a scheduler nobody knows, or when too many wait."""
        strange = [name for name in wish.policies if name not in POLICIES]
        if strange or len(set(wish.policies)) < len(wish.policies):
            known = ", ".join(POLICIES)
            raise InputError("policies", Sentence("every scheduler once, each a known one"), hint=known)
        if len(self._tasks) >= _MOST_WAITING:
            hint = Sentence("try again in a moment")
            raise InputError("simulate", Sentence("too many comparisons are waiting"), hint=hint)
        self._count += 1
        found = self.known[self._count] = Simulation(self._count, "running", wish, ())
        if len(self.known) > _MOST_RUNS:
            self.known.popitem(last=False)
        task = asyncio.create_task(self._play(found.id, wish))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return found

    def listed(self) -> Simulations:
        return Simulations(tuple(reversed(self.known.values())), tuple(POLICIES))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._pool is not None:
            for process in list(self._pool._processes.values()):  # noqa: SLF001 - no other way to end a run that is under way
                process.terminate()
            self._pool.shutdown(wait=False, cancel_futures=True)

    async def _play(self, number: int, wish: SimulationWish) -> None:
        async with self._turn:
            if self._pool is None:
                context = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(1, mp_context=context)
            spec, trace = machines_of(self.cluster), trace_of(wish.pods)
            loop = asyncio.get_running_loop()
            try:
                for policy in wish.policies:
                    result = await loop.run_in_executor(self._pool, run, spec, trace, policy, wish.seed)
                    self._note(number, [result])
            except InputError as error:
                self._pool = None
                self._note(number, [], state="failed", problem=error.sentence)
            except BrokenProcessPool:
                self._pool = None
                problem = Sentence("the process that played it ended before it was done")
                self._note(number, [], state="failed", problem=problem)
            else:
                self._note(number, [], state="done")

    def _note(
        self,
        number: int,
        results: Sequence[Result],
        state: Literal["running", "done", "failed"] = "running",
        problem: Sentence = Sentence(),  # noqa: B008 - it never changes
    ) -> None:
        known = self.known.get(number)
        if known is not None:
            self.known[number] = msgspec.structs.replace(
                known, state=state, results=(*known.results, *results), problem=problem
            )
