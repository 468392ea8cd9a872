"""The DLRM trace: its services and instances are read, and limits per node are kept by every scheduler of the lab."""

from __future__ import annotations

from collections import Counter

import pytest

from numaware.simulate import dlrm, openb
from numaware.simulate.clusters import build
from numaware.simulate.policies import POLICIES, Setting
from numaware.simulate.traces import Trace
from support.shared_data import shared

FEW = 400


def read(*, timed: bool = False) -> Trace:
    data = shared("data", "traces", "gpu_v2025_dlrm_pods.csv").read_bytes()
    return dlrm.pods(data, "pods.csv", timed=timed)


def test_all_services_and_instances_are_read_and_each_fits_a_numa_node() -> None:
    found = read().pods
    assert len(found) == 23_871
    assert len({dict(timed.pod.scheduling.labels)["app"] for timed in found}) == 156
    assert sum(bool(timed.pod.scheduling.spread) for timed in found) >= 23_871 - 12_248
    kinds = {timed.pod.containers[0]: timed.pod for timed in found}
    [member] = build(dlrm.nodes("1", openb.kubelet("single-numa-node")))
    for pod in kinds.values():
        assert member.node.admit(pod).admitted, pod.name


def test_times_are_read() -> None:
    found = read(timed=True).pods
    assert sum(timed.lifetime is not None for timed in found) == 12_390 + 2_603
    assert sum(timed.time == 0 for timed in found) >= 4_677 + 2_603


@pytest.mark.parametrize("policy", ["numaware", "kube-scheduler", "kai", "koordinator"])
def test_limits_per_node_are_kept(policy: str) -> None:
    """Few nodes, so that services meet themselves again on each of them."""
    nodes = build(dlrm.nodes("16", openb.kubelet("restricted")))
    scheduler = POLICIES[policy](Setting(nodes, (), 7))
    limits, where = {}, Counter[tuple[str, tuple[tuple[str, str], ...]]]()
    for number, timed in enumerate(read().pods[:FEW]):
        service, spread = timed.pod.scheduling.labels, timed.pod.scheduling.spread
        decision = scheduler.decide(timed.pod, number)
        if decision.node is not None and scheduler.bind(decision).admitted:
            where[decision.node, service] += 1
            limits[service] = spread[0].max_skew if spread else FEW
    assert all(count <= limits[service] for (_, service), count in where.items())
    assert any(count == limits[service] for (_, service), count in where.items())
