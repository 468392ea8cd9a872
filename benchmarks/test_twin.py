"""One admission by the twin beside the kubelet's own time for it; run by `make bench`, which prints the table.

The kubelet's figures were measured with its own managers (v1.35, logging off, state files on tmpfs): hints, merge,
allocation and writing the state files. The twin's are CPU time, the best of several runs, without evidence and without
files; CPU time, so that whatever else runs on the machine does not count.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from numaware.twin.node import Node
from numaware.workload.pod import Pod
from support.twin_cases import CASES, Case, node_of
from support.twin_nodes import state_key

Row = tuple[str, str, str, str]
pytestmark = pytest.mark.benchmark(timer=time.process_time)


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Iterator[list[Row]]:
    """Rows to be printed once all cases are measured."""
    rows: list[Row] = [("one admission", "kubelet", "twin", "faster by")]
    yield rows
    reporter = request.config.pluginmanager.getplugin("terminalreporter")
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    reporter.write_line("")
    for row in rows:
        cells = zip(row, widths, strict=True)
        reporter.write_line("  ".join(cell.ljust(width) for cell, width in cells).rstrip())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_admission(benchmark: BenchmarkFixture, table: list[Row], case: Case) -> None:
    node = node_of(case)
    verdict = benchmark(node.admit, case.pod)
    assert verdict.admitted == case.admitted, verdict.message
    seconds = best(benchmark)
    table.append(
        (
            case.name,
            duration(case.kubelet) if case.kubelet else "not measured",
            duration(seconds),
            f"{case.kubelet / seconds:,.0f} times" if case.kubelet else "",
        )
    )
    assert seconds <= case.promise, f"{duration(seconds)}, promised {duration(case.promise)}"


def test_equal_nodes_answer_equal_pods_from_a_cache(benchmark: BenchmarkFixture, table: list[Row]) -> None:
    """What a scheduler does with a thousand nodes that are alike: ask one, remember the answer."""
    case = CASES[0]
    node = node_of(case)
    answers = {(state_key(node), case.pod.shape): node.admit(case.pod).admitted}
    other = Pod(name="other", uid="another", containers=case.pod.containers)

    def cached(node: Node, pod: Pod) -> bool:
        return answers[state_key(node), pod.shape]

    assert benchmark(cached, node, other) == case.admitted
    seconds = best(benchmark)
    table.append((f"{case.name}, cached", duration(case.kubelet), duration(seconds), ""))
    assert seconds <= case.kubelet / 30


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: CASES[number].name)
def test_no_admission_takes_more_than_50_mb(number: int) -> None:
    """Peak memory of a whole process, Python included, that starts the node's kubelet and admits the pod."""
    command = [sys.executable, "-m", "support.twin_cases", str(number)]
    tests = Path(__file__).parents[1] / "tests"
    run = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tests)
    assert int(run.stdout) < 50 * 1024, f"{int(run.stdout) // 1024} MB"


def best(benchmark: BenchmarkFixture) -> float:
    assert benchmark.stats is not None
    return float(benchmark.stats.stats.min)


def duration(seconds: float) -> str:
    for unit, size in (("days", 86400), ("s", 1), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
