"""How many decisions a second the engine makes, beside what other schedulers publish; run by `make bench`.

A decision is: judge and score every node exactly, pick the best, hand the pod to that node's kubelet; after 30 of a
hundred a pod leaves. No API server is asked, so this is a decision rate and no bind rate. Seconds are CPU seconds of
one process on one core, so that whatever else runs on the machine does not count. The figures of others are theirs,
on their machines: they compare orders of size, not machines.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from support.engine_load import FULL, MIXED, RELEASES, SHAPES

Row = tuple[str, str, str]
GOALS = {"5,000 nodes x 2 NUMA": 10_000, "5,000 nodes x 8 NUMA": 2_000}
MIXED_GOAL = 5_000
PEERS: tuple[Row, ...] = (
    ("kube-scheduler, 5,000 nodes", "270 (v1.32-1.36), 790 (v1.37)", "scores 10 % of nodes; no NUMA; binds"),
    ("Goedel, 30,000 nodes", "about 1,000", "no kubelet rule; 5,000 claimed over several shards; binds"),
    ("YuniKorn, kwok", "156 to 833", "no NUMA; binds"),
    (
        "scheduler-plugins, filter alone",
        "9 at 5,000 x 2, 3 at x 8",
        "22 and 65 us a node; single-numa-node only",
    ),
    (
        "Volcano numa-aware, predicate alone",
        "1 at 5,000 x 2, 0.02 at x 8",
        "0.2 and 9.4 ms a node; CPUs only",
    ),
    ("KAI numa, 250 2-GPU pods", "4", "preemption scenario; no memory groups, no CPU options"),
    ("Koordinator", "none published", "no kubelet verdict: it sets CPUs itself"),
)


@lru_cache(maxsize=8)
def measured(name: str) -> dict[str, float]:
    """One load, each time in a process of its own, so that neither memory nor caches of another count.

    The best of three: what else runs on the machine makes a decision slower, never faster.
    """
    tests = Path(__file__).parents[1] / "tests"
    command = [sys.executable, "-m", "support.engine_load", name]
    runs: list[dict[str, float]] = []
    for _ in range(3):
        run = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tests)
        runs.append(json.loads(run.stdout))
    return max(runs, key=lambda found: found["perSecond"])


@pytest.fixture(scope="module", autouse=True)
def table(request: pytest.FixtureRequest) -> Iterator[list[Row]]:
    """Rows to be printed once everything is measured."""
    rows: list[Row] = []
    yield rows
    reporter = request.config.pluginmanager.getplugin("terminalreporter")
    shown = [("scheduler", "decisions/s", "what it leaves out"), *rows, *PEERS]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    reporter.write_line("")
    for row in shown:
        reporter.write_line(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


@pytest.mark.parametrize(
    ("name", "least"),
    [("5,000 nodes x 2 NUMA", 790), ("5,000 nodes x 8 NUMA", 270)],
    ids=["2 NUMA", "8 NUMA"],
)
def test_more_decisions_a_second_than_kube_scheduler_makes_without_looking_at_numa(
    table: list[Row], name: str, least: int
) -> None:
    """Its best figure at two NUMA nodes, that of the releases in use at eight."""
    found = measured(name)
    left_out = (
        f"API server; {len(SHAPES)} shapes, {FULL} % full, {RELEASES} % releases, all nodes scored exactly"
    )
    table.append((f"numaware, {name}", f"{found['perSecond']:,.0f} (goal {GOALS[name]:,})", left_out))
    assert found["refused"] == 0
    assert found["perSecond"] >= least


@pytest.mark.parametrize("name", list(GOALS), ids=["2 NUMA", "8 NUMA"])
def test_the_goal_is_met(name: str) -> None:
    assert measured(name)["perSecond"] >= GOALS[name]


def test_nodes_of_which_hardly_two_are_alike_cost_more_but_not_as_much_as_elsewhere(table: list[Row]) -> None:
    """No answer can be shared there. The bar is that of equal nodes; the goal is for a core of its own (docs/placement.md)."""
    found = measured(MIXED)
    table.append(
        (
            f"numaware, {MIXED}",
            f"{found['perSecond']:,.0f} (goal {MIXED_GOAL:,})",
            "API server; OpenB's default trace to the last pod, 1 to 2 NUMA nodes each, none leaves",
        )
    )
    assert found["perSecond"] >= 790


def test_ten_times_the_nodes_cost_less_than_twice_as_much(table: list[Row]) -> None:
    small, large = measured("5,000 nodes x 2 NUMA"), measured("50,000 nodes x 2 NUMA")
    growth = small["perSecond"] / large["perSecond"]
    table.append(
        (
            "numaware, 50,000 nodes x 2 NUMA",
            f"{large['perSecond']:,.0f}",
            f"as above; a decision costs {growth:.2f} times that at 5,000, {large['peakMb']:,.0f} MB",
        )
    )
    assert growth < 2


def test_fifty_thousand_nodes_take_less_than_a_gigabyte() -> None:
    """Peak memory of the whole process, Python and all pods included."""
    assert measured("50,000 nodes x 2 NUMA")["peakMb"] < 1000
