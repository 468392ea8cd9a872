"""Pods bound a second on a real API server, all contenders in one run on one server; run by `make bench`.

A server that has just started, and a scheduler's first seconds, are slower than what follows. So the server is warmed up with
a load that nobody counts, and collects its garbage before each run. A run lasts about a second, and what else goes on, on a
machine that is shared, may halve the speed of any second; it never makes one faster. So all have their turns, one after the
other, and of each the best counts; of pods unplaced and refused, the most in any run. Nodes are not filled to the brim: the
last pods would all go to the same few nodes, where binds wait for each other.

Everything is on one machine, so the API server, etcd and the scheduler share its CPUs: rates compare within this run only,
and the CPU seconds beside them tell what a scheduler costs wherever it runs.
"""

from __future__ import annotations

import os

import pytest

from e2e.bind_race import CONTENDERS, Run, cluster, run
from e2e.control_plane import ControlPlane

# Nodes, pods that all find a place on them, and how often each contender has its turn.
SIZES = ((100, 900, 12), (1_000, 3_000, 3))
NODES = tuple(nodes for nodes, _, _ in SIZES)
BARE, NUMAWARE, KUBE, PLUGIN, EXTENDED = (one.name for one in CONTENDERS)
Runs = dict[tuple[str, int], Run]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Runs:
    """Everything measured once, and shown as a table."""
    found: Runs = {}
    load_before = os.getloadavg()[0]
    with ControlPlane(tmp_path_factory.mktemp("plane"), server_flags=["--profiling"]) as plane:
        for nodes, pods, turns in SIZES:
            with cluster(plane, nodes) as kubelets:
                if not found:
                    run(plane, CONTENDERS[0], kubelets, pods)
                done: dict[str, list[Run]] = {one.name: [] for one in CONTENDERS}
                for turn in range(turns):
                    for one in CONTENDERS:
                        if turn < one.most_turns:
                            done[one.name].append(run(plane, one, kubelets, pods))
            for name, its in done.items():
                found[name, nodes] = max(its, key=lambda run: run.rate)._replace(
                    left=max(run.left for run in its), refused=max(run.refused for run in its)
                )
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        _show(found, f"load average {load_before:.1f} before, {os.cpu_count()} CPUs")
    return found


def _show(found: Runs, machine: str) -> None:
    left_out = {one.name: one.leaves_out for one in CONTENDERS}
    heading = (
        *(
            "nodes",
            "scheduler",
            "pods/s",
            "of ceiling",
            "CPU s/1000 pods",
            "API server's",
            "unplaced",
            "refused",
        ),
        "what it leaves out",
    )
    rows = [heading]
    for (name, nodes), one in found.items():
        thousands = one.bound / 1000
        rows.append(
            (
                f"{nodes:,}",
                name,
                f"{one.rate:,.0f}",
                f"{one.rate / found[BARE, nodes].rate:.0%}",
                f"{one.cpu.scheduler / thousands:.2f}",
                f"{one.cpu.server / thousands:.2f}",
                f"{one.left:,}",
                f"{one.refused:,}",
                left_out[name],
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print(f"\npods bound a second; no kubelet answers meanwhile; {machine}")
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@pytest.mark.parametrize("nodes", NODES)
def test_twice_as_fast_as_kube_scheduler_or_near_what_the_server_can_take(runs: Runs, nodes: int) -> None:
    ours, ceiling = runs[NUMAWARE, nodes].rate, runs[BARE, nodes].rate
    theirs = max(runs[name, nodes].rate for name in (KUBE, PLUGIN))
    assert ours >= 2 * theirs or ours >= 0.8 * ceiling


@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("name", [NUMAWARE, EXTENDED])
def test_no_kubelet_would_refuse_a_pod(runs: Runs, name: str, nodes: int) -> None:
    assert runs[name, nodes].refused == 0


@pytest.mark.parametrize("nodes", NODES)
def test_every_pod_finds_a_place(runs: Runs, nodes: int) -> None:
    """kube-scheduler spreads pods and may leave no node with four GPUs."""
    assert runs[NUMAWARE, nodes].left == 0
