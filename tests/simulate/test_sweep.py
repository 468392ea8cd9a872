"""Where a run is played changes nothing but how long one waits for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from numaware.errors import InputError
from numaware.simulate.result import Result
from numaware.simulate.sweep import Listener, RunError, plan, run_all
from support.small_sweeps import bad_input, bug, dies, invented, late_first, places, three


def comparable(results: list[Result]) -> bytes:
    """All of it but what depends on the clock on the wall."""
    timeless = [
        msgspec.structs.replace(one, run=msgspec.structs.replace(one.run, decisions_per_second=0.0))
        for one in results
    ]
    return msgspec.json.encode(timeless)


def test_every_policy_meets_every_seed_on_every_cluster_in_a_fixed_order() -> None:
    jobs = plan(places(), ["numaware", "random"], [7, 8])
    assert [(job.cluster.name, job.policy, job.seed) for job in jobs] == [
        (cluster, policy, seed)
        for cluster in ("four", "six")
        for policy in ("numaware", "random")
        for seed in (7, 8)
    ]


def test_results_are_the_same_played_one_by_one_and_by_two_processes() -> None:
    jobs = plan(places(), ["numaware", "kube-scheduler", "random"], [1, 2])
    alone, together = run_all(jobs, workers=1), run_all(jobs, workers=2)
    assert comparable(alone) == comparable(together)
    assert {one.run.pods_placed for one in alone} != {0}
    assert len({comparable([one]) for one in alone}) > len(jobs) // 2


def test_results_come_in_the_order_of_the_jobs_whoever_is_first(tmp_path: Path) -> None:
    ended: list[int] = []

    def finished(number: int, _: Result) -> None:
        ended.append(number)
        if number == 2:
            (tmp_path / "go").touch()

    results = run_all(three(str(tmp_path)), workers=2, task=late_first, listener=Listener(finished=finished))
    assert ended == [1, 2, 0]
    assert [one.run.seed for one in results] == [1, 2, 3]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_listener_hears_every_step_and_every_result(workers: int) -> None:
    steps: list[tuple[int, int, int]] = []
    results: dict[int, Result] = {}
    listener = Listener(lambda *step: steps.append(step), results.__setitem__)
    returned = run_all(three(), workers=workers, task=invented, listener=listener)
    assert sorted(steps) == [(number, done, 2) for number in range(3) for done in (1, 2)]
    assert [results[number] for number in range(3)] == returned


def test_no_jobs_give_no_results() -> None:
    assert run_all([]) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_bad_input_is_told_with_the_name_of_its_run(workers: int) -> None:
    with pytest.raises(InputError) as caught:
        run_all(three(), workers=workers, task=bad_input)
    assert str(caught.value) == (
        "policy numaware, seed 2 on none, empty: node gpu-07: the kubelet would not start (reserve a CPU)"
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bug_is_told_with_the_name_of_its_run_and_where_it_was(workers: int) -> None:
    with pytest.raises(
        RunError, match=r"policy numaware, seed 2 on none, empty: KeyError: 'zone-9'"
    ) as caught:
        run_all(three(), workers=workers, task=bug)
    assert any("in bug" in note for note in caught.value.__notes__)


def test_a_process_that_is_killed_is_told_with_the_name_of_its_run() -> None:
    with pytest.raises(
        InputError, match=r"seed 2 on none, empty: its process was killed by signal 9 \(perhaps memory"
    ):
        run_all(three(), workers=2, task=dies)


def test_an_unknown_policy_is_told_once_with_those_that_are_known() -> None:
    (place, *_) = places()
    with pytest.raises(
        InputError, match=r"policy best, seed 1 on four, mixed: --policy: 'best' is no policy"
    ):
        run_all(plan([place], ["best"], [1]))


def test_ctrl_c_ends_the_processes_too(tmp_path: Path) -> None:
    program = (
        "from numaware.simulate.sweep import run_all\n"
        "from support.small_sweeps import endless, three\n"
        "if __name__ == '__main__':\n"
        f"    run_all(three({str(tmp_path)!r}), workers=2, task=endless)\n"
    )
    script = tmp_path / "sweep_to_end.py"
    script.write_text(program, encoding="utf-8")
    sweep = subprocess.Popen(
        [sys.executable, script],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 60
        while len(started := [path for path in tmp_path.iterdir() if path.name.isdecimal()]) < 2:
            assert time.monotonic() < deadline, "the processes did not start"
            assert sweep.poll() is None, sweep.communicate()[1].decode()
            time.sleep(0.05)
        # As a terminal does it: to every process of the group.
        os.killpg(sweep.pid, signal.SIGINT)
        _, errors = sweep.communicate(timeout=60)
    finally:
        sweep.kill()
    assert b"KeyboardInterrupt" in errors
    assert [path for path in started if Path("/proc", path.name).exists()] == []


# Ray


class FakeRay:
    """The few calls of Ray that a sweep makes, played at once; `lost` is the job whose machine vanishes."""

    exceptions = SimpleNamespace(RayError=ArithmeticError)

    def __init__(self, lost: int | None = None) -> None:
        self.lost = lost
        self.running = False
        self.joined: dict[str, Any] = {}
        self.cancelled: list[int] = []

    def is_initialized(self) -> bool:
        return self.running

    def init(self, **options: Any) -> None:
        self.running, self.joined = True, options

    def shutdown(self) -> None:
        self.running = False

    def put(self, value: object) -> object:
        return value

    def remote(self, function: Any) -> Any:
        return SimpleNamespace(
            remote=lambda jobs, number, task: (number, lambda: function(jobs, number, task))
        )

    def wait(self, references: list[Any], num_returns: int) -> tuple[list[Any], list[Any]]:
        return references[-num_returns:], references[:-num_returns]

    def get(self, reference: Any) -> Any:
        number, play = reference
        if number == self.lost:
            raise ArithmeticError("the machine is gone\nand so is this")
        return play()

    def cancel(self, reference: Any, *, force: bool) -> None:
        assert force
        self.cancelled.append(reference[0])


def test_a_sweep_on_ray_gives_the_results_of_a_sweep_here(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", ray)
    jobs = plan(places(), ["numaware", "kube-scheduler"], [1, 2])
    ended: list[int] = []
    listener = Listener(finished=lambda number, _: ended.append(number))
    results = run_all(jobs, engine="ray", listener=listener)
    assert comparable(results) == comparable(run_all(jobs, workers=1))
    assert sorted(ended) == list(range(len(jobs)))
    assert not ray.running
    (shipped,) = ray.joined["runtime_env"]["py_modules"]
    assert Path(shipped, "simulate", "sweep.py").is_file()


def test_a_ray_that_runs_already_is_used_and_left_running(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = FakeRay()
    ray.running = True
    monkeypatch.setitem(sys.modules, "ray", ray)
    run_all(three(), engine="ray", task=invented)
    assert ray.running
    assert not ray.joined


def test_a_job_that_ray_loses_is_named_and_the_others_are_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = FakeRay(lost=1)
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(InputError, match=r"seed 2 on none, empty: Ray lost it: the machine is gone$"):
        run_all(three(), engine="ray", task=invented)
    assert ray.cancelled == [0]
    assert not ray.running


def test_a_ray_cluster_that_cannot_be_joined_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**options: Any) -> None:
        raise ConnectionError("no cluster at 10.0.0.9:6379\nmany more lines")

    ray = FakeRay()
    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(
        InputError, match=r"^--engine ray: no Ray cluster could be joined: no cluster at 10.0.0.9:6379$"
    ):
        run_all(three(), engine="ray", task=invented)


def test_without_ray_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        InputError, match=r"^--engine ray: Ray is not installed \(pip install 'numaware\[ray\]'\)$"
    ):
        run_all(three(), engine="ray")


def test_ray_is_imported_by_nobody_who_did_not_ask_for_it() -> None:
    program = "import sys, numaware.simulate.sweep; print('ray' in sys.modules, 'numaware.simulate.ray_cluster' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
