"""The OpenB traces: published results reproduced without NUMA, and no refusals with it.

A tenth or less of the cluster keeps these runs short; numbers of a sample scatter, so tolerances are wide. The
benchmarks play the whole cluster.
"""

from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path
from statistics import fmean

import msgspec
import pytest

from numaware.schedule.profile import shipped
from numaware.simulate import openb
from numaware.simulate.clusters import ClusterSpec
from numaware.simulate.result import Result
from numaware.simulate.run import run
from numaware.simulate.traces import Trace
from support.shared_data import shared

# Percentage points between one seed on a sample and the published mean of ten seeds on the whole cluster; one pod of
# four GPUs is a point of the smaller sample.
SAMPLE, CHANCE = 2.0, 3.0
PUBLISHED = {"fgd": "06-FGD", "best-fit": "05-BestFit", "random": "01-Random"}
PEERS = ("kube-scheduler", "scheduler-plugins", "volcano", "kai", "koordinator")
WORKLOADS = ("openb_pod_list_default", "openb_pod_list_cpu050", "openb_pod_list_multigpu50")


def traces(name: str) -> Path:
    return shared("data", "traces", name)


def sample(policy: str, scope: str = "container", *, every: int) -> ClusterSpec:
    data = traces("openb_node_list_all_node.csv").read_bytes()
    spec = openb.nodes(data, "nodes.csv", openb.kubelet(policy, scope))
    return msgspec.structs.replace(spec, nodes=spec.nodes[::every])


def arriving(workload: str, share: int, *, whole_cpus: bool) -> Trace:
    found = openb.pods(traces(f"{workload}.csv").read_bytes(), f"{workload}.csv", whole_cpus=whole_cpus)
    return msgspec.structs.replace(found, arrive=share)


@lru_cache(maxsize=64)
def without_numa(policy: str, workload: str, seed: int = 42) -> Result:
    return run(sample("none", every=10), arriving(workload, 1300, whole_cpus=False), policy, seed)


def published(table: str, policy: str, workload: str, load: str) -> float:
    """The mean over the published seeds."""
    with traces(f"fgd_analysis_{table}_discrete.csv").open(encoding="utf-8", newline="") as stream:
        return fmean(
            float(row[load])
            for row in csv.DictReader(stream)
            if row["workload"] == workload and row["sc_policy"] == PUBLISHED[policy]
        )


def allocated(result: Result) -> float:
    return result.run.device_allocated_percent["gpu"]


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("policy", PUBLISHED)
def test_published_policies_allocate_what_was_published(policy: str, workload: str) -> None:
    result = without_numa(policy, workload)
    near = CHANCE if policy == "random" else SAMPLE
    assert allocated(result) == pytest.approx(published("allo", policy, workload, "130"), abs=near)
    full = next(point for point in result.series if point.arrived_percent >= 100)
    assert full.device_percent == pytest.approx(published("allo", policy, workload, "100"), abs=near)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_published_policies_come_in_the_published_order(workload: str) -> None:
    assert (
        allocated(without_numa("random", workload))
        < allocated(without_numa("best-fit", workload))
        < allocated(without_numa("fgd", workload))
    )


def test_what_is_left_at_the_end_is_stranded_as_published() -> None:
    stranded = without_numa("fgd", WORKLOADS[0]).run.stranded_percent
    assert stranded == pytest.approx(published("frag", "fgd", WORKLOADS[0], "130"), abs=SAMPLE)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_our_default_allocates_as_much_as_fgd_which_knows_all_pods_beforehand(workload: str) -> None:
    """On the average of three seeds: on so small a sample one pod of four GPUs more or less is 0.6 points."""
    ours, theirs = (
        fmean(allocated(without_numa(policy, workload, seed)) for seed in (42, 43, 44))
        for policy in ("numaware", "fgd")
    )
    assert ours >= theirs - 0.5


@pytest.mark.parametrize("scope", ["container", "pod"])
@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node", "none"])
def test_no_kubelet_ever_refuses_what_we_send(policy: str, scope: str) -> None:
    pods = arriving(WORKLOADS[0], 1300, whole_cpus=policy != "none")
    result = run(sample(policy, scope, every=16), pods, "numaware", 7)
    assert result.run.kubelet_refusals == 0
    assert result.run.pods_placed > result.run.pods_total // 2


@pytest.mark.parametrize(("policy", "scope"), [("restricted", "container"), ("single-numa-node", "pod")])
def test_no_rule_has_more_gpus_in_use_and_no_size_of_job_is_starved(policy: str, scope: str) -> None:
    pods = arriving(WORKLOADS[0], 980, whole_cpus=True)
    nodes = sample(policy, scope, every=8)
    ours = run(nodes, pods, "numaware", 42)
    many = run(nodes, pods, "numaware", 42, profile=shipped("most-pods"))
    for name in PEERS:
        theirs = run(nodes, pods, name, 42)
        # Half a point, a pod, one in two hundred: the luck of a sample.
        assert allocated(ours) >= allocated(theirs) - 0.5, name
        assert ours.run.aligned_percent >= theirs.run.aligned_percent, name
        if not theirs.run.kubelet_refusals:
            for size in ("2", "4", "8"):
                placed, asked = theirs.run.placed_by_size.get(size, (0, 0))
                assert ours.run.placed_by_size.get(size, (0, 0))[0] >= min(asked, 0.95 * placed) - 1, (
                    name,
                    size,
                )
        assert many.run.pods_placed >= theirs.run.pods_placed * 0.995, name


@pytest.mark.parametrize("policy", ["restricted", "none"])
def test_on_a_cluster_that_is_not_full_every_pod_that_kai_places_finds_a_node(policy: str) -> None:
    pods = msgspec.structs.replace(
        openb.pods(traces(f"{WORKLOADS[0]}.csv").read_bytes(), "pods.csv", whole_cpus=policy != "none"),
        limit=500,
    )
    nodes = sample(policy, every=8)
    ours, theirs = (run(nodes, pods, name, 7).run for name in ("numaware", "kai"))
    assert ours.pods_placed >= theirs.pods_placed
    assert ours.placed_by_size["8"] >= theirs.placed_by_size["8"]


def test_node_totals_are_refused_by_kubelets_that_insist() -> None:
    pods = arriving(WORKLOADS[0], 980, whole_cpus=True)
    assert run(sample("restricted", every=16), pods, "kube-scheduler", 42).run.kubelet_refusals > 0
