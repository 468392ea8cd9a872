"""Many runs at once: policies, seeds and clusters on all cores of this machine, or on a Ray cluster.

A run needs nothing but its own arguments, so where it is played changes nothing: the results come back in the order of
the jobs, equal to those of playing them one by one, but for their speed.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Literal, NamedTuple

from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.schedule.gc_tuning import settle
from numaware.schedule.profile import DEFAULT_PROFILE, Profile
from numaware.simulate.clusters import ClusterSpec
from numaware.simulate.result import Result
from numaware.simulate.run import Progress, run
from numaware.simulate.traces import Trace

EngineName = Literal["local", "ray"]
# Seconds that a process has to end when it is told to.
_PATIENCE = 5


class Job(NamedTuple):
    """One run to play."""

    cluster: ClusterSpec
    trace: Trace
    policy: str
    seed: int
    profile: Profile = DEFAULT_PROFILE

    @property
    def name(self) -> str:
        """How a person would say which run it is."""
        place = f"{printable(self.cluster.name, 80)}, {printable(self.trace.name, 80)}"
        return f"policy {printable(self.policy, 80)}, seed {self.seed} on {place}"


class Failure(NamedTuple):
    """Why a run came to no result, in a form that can be sent: what the user can mend, or else what went wrong in us."""

    source: str
    problem: str
    hint: str
    trace: str


class RunError(RuntimeError):
    """A run failed for a reason that is not in its input."""


Task = Callable[[Job, Progress], Result]
Outcome = Result | Failure


class Listener(NamedTuple):
    """Who wants to know: of pods that arrived in a job (its number, so many, of so many), and of each finished job."""

    progress: Callable[[int, int, int], None] = lambda _number, _arrived, _all: None
    finished: Callable[[int, Result], None] = lambda _number, _result: None


def plan(
    places: Sequence[tuple[ClusterSpec, Trace]],
    policies: Sequence[str],
    seeds: Sequence[int],
    profile: Profile = DEFAULT_PROFILE,
) -> list[Job]:
    """Every policy with every seed on every cluster with its trace."""
    return [
        Job(cluster, trace, policy, seed, profile)
        for cluster, trace in places
        for policy in policies
        for seed in seeds
    ]


def play(job: Job, progress: Progress) -> Result:
    """One job, here and now."""
    return run(job.cluster, job.trace, job.policy, job.seed, profile=job.profile, progress=progress)


def run_all(
    jobs: Sequence[Job],
    *,
    engine: EngineName = "local",
    workers: int | None = None,
    listener: Listener | None = None,
    task: Task = play,
) -> list[Result]:
    """Play all jobs; the first that fails ends the sweep with an error that names it.

    `workers` is how many processes play on this machine, by default one for each core. `task` has to be a function that
    other processes can import.
    """
    listener = listener or Listener()
    if engine == "ray":
        from numaware.simulate.ray_cluster import play_on_ray  # noqa: PLC0415 - only who asks for Ray pays for it

        return play_on_ray(jobs, listener, task)
    processes = min(len(os.sched_getaffinity(0)) if workers is None else workers, len(jobs))
    return (
        _with_processes(jobs, processes, listener, task)
        if processes > 1
        else _one_by_one(jobs, listener, task)
    )


def attempt(job: Job, progress: Progress, task: Task) -> Outcome:
    """Play a job; what goes wrong becomes a value, as exceptions lose their words on the way between processes."""
    try:
        return task(job, progress)
    except InputError as error:
        return Failure(error.source, str(error.problem), str(error.hint), "")
    except Exception as error:  # noqa: BLE001 - whatever it was, the sweep must say in which run
        return Failure("", f"{type(error).__name__}: {error}", "", traceback.format_exc())


def checked(job: Job, outcome: Outcome) -> Result:
    """The result, or the error with the name of its run."""
    if isinstance(outcome, Result):
        return outcome
    if not outcome.trace:
        source = f"{job.name}: {outcome.source}" if outcome.source else job.name
        raise InputError(source, outcome.problem, hint=outcome.hint)
    error = RunError(f"{job.name}: {outcome.problem}")
    error.add_note(outcome.trace)
    raise error


def _one_by_one(jobs: Sequence[Job], listener: Listener, task: Task) -> list[Result]:
    results = []
    for number, job in enumerate(jobs):
        outcome = attempt(job, partial(listener.progress, number), task)
        results.append(checked(job, outcome))
        listener.finished(number, results[-1])
    return results


# Processes of this machine


class _Worker(NamedTuple):
    """A process that plays, and the job it is at."""

    process: SpawnProcess
    number: int


# How far a run has come: pods arrived, of all.
_Step = tuple[int, int]


def _with_processes(jobs: Sequence[Job], processes: int, listener: Listener, task: Task) -> list[Result]:
    """Each process gets all jobs once, as clusters are large and shared, and then the number of one after another.

    They are started afresh, not forked: what this process has open or locked is none of theirs.
    """
    context = get_context("spawn")
    results: dict[int, Result] = {}
    workers: dict[Connection, _Worker] = {}
    try:
        for number in range(processes):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(tuple(jobs), task, theirs), daemon=True)
            process.start()
            theirs.close()
            workers[ours] = _Worker(process, number)
            ours.send(number)
        following = processes
        while workers:
            ready = wait(list(workers))
            for connection in [one for one in workers if one in ready]:
                worker = workers[connection]
                message = _received(connection, worker, jobs)
                if isinstance(message, tuple) and not isinstance(message, Failure):
                    listener.progress(worker.number, *message)
                    continue
                results[worker.number] = checked(jobs[worker.number], message)
                listener.finished(worker.number, results[worker.number])
                if following < len(jobs):
                    connection.send(following)
                    workers[connection] = worker._replace(number=following)
                    following += 1
                else:
                    connection.send(None)
                    workers.pop(connection).process.join(_PATIENCE)
    finally:
        _end([worker.process for worker in workers.values()])
    return [results[number] for number in range(len(jobs))]


def _received(connection: Connection, worker: _Worker, jobs: Sequence[Job]) -> Outcome | _Step:
    try:
        message: Outcome | _Step = connection.recv()
    except (EOFError, OSError):
        worker.process.join(_PATIENCE)
        code = worker.process.exitcode
        killed = code is not None and code < 0
        problem = (
            f"its process was killed by signal {-code}"
            if code and killed
            else f"its process ended with {code}"
        )
        hint = "perhaps memory ran out: fewer workers need less" if killed else ""
        raise InputError(jobs[worker.number].name, problem, hint=hint) from None
    return message


def _end(processes: Sequence[SpawnProcess]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(_PATIENCE)
        if process.is_alive():
            process.kill()
            process.join()


def _work(jobs: Sequence[Job], task: Task, connection: Connection) -> None:
    """The life of a process that plays: until there is nothing left, or nobody who asked."""
    # Ctrl-C reaches every process of a terminal; the one that started the sweep decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settle()
    try:
        while (number := connection.recv()) is not None:
            outcome = attempt(
                jobs[number], lambda done, everything: connection.send((done, everything)), task
            )
            connection.send(outcome)
    except (EOFError, OSError):
        return
