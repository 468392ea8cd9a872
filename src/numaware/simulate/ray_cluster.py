"""A sweep on a Ray cluster: the one that `RAY_ADDRESS` or this machine's Ray names, or else one started here for it.

Ray is an extra (`pip install 'numaware[ray]'`) and imported by nobody else.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numaware.errors import InputError
from numaware.simulate.result import Result
from numaware.simulate.sweep import Job, Listener, Outcome, Task, attempt, checked

_OPTION = "--engine ray"


def play_on_ray(jobs: Sequence[Job], listener: Listener, task: Task) -> list[Result]:
    """Play all jobs where Ray finds room; results in the order of the jobs."""
    ray = _ray()
    started = not ray.is_initialized()
    if started:
        _join(ray)
    pending: dict[Any, int] = {}
    results: dict[int, Result] = {}
    try:
        # Sent once to each machine, not with each job: clusters are large and shared.
        everything = ray.put(tuple(jobs))
        play = ray.remote(_play)
        pending = {play.remote(everything, number, task): number for number in range(len(jobs))}
        while pending:
            ready, _ = ray.wait(list(pending), num_returns=1)
            for reference in ready:
                number = pending.pop(reference)
                results[number] = checked(jobs[number], _outcome(ray, reference, jobs[number]))
                listener.finished(number, results[number])
    finally:
        for reference in pending:
            ray.cancel(reference, force=True)
        if started:
            ray.shutdown()
    return [results[number] for number in range(len(jobs))]


def _ray() -> Any:
    # The lab tells nobody that it runs, and nor shall a library on its behalf.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        return importlib.import_module("ray")
    except ModuleNotFoundError:
        raise InputError(_OPTION, "Ray is not installed", hint="pip install 'numaware[ray]'") from None


def _join(ray: Any) -> None:
    """Ray's machines get this very copy of numaware, or results could depend on where a run was played."""
    package = str(Path(__file__).parents[1])
    try:
        ray.init(log_to_driver=False, logging_level="ERROR", runtime_env={"py_modules": [package]})
    except (ConnectionError, RuntimeError, ValueError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(_OPTION, f"no Ray cluster could be joined: {first}") from None


def _outcome(ray: Any, reference: object, job: Job) -> Outcome:
    try:
        outcome: Outcome = ray.get(reference)
    except ray.exceptions.RayError as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(job.name, f"Ray lost it: {first}") from None
    return outcome


def _play(jobs: Sequence[Job], number: int, task: Task) -> Outcome:
    return attempt(jobs[number], lambda _done, _all: None, task)
