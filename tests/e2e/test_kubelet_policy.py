"""A pool of two real kubelets: switched one at a time by their agents; the second is not touched when the first fails."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.control_plane import ControlPlane
from e2e.kubelet_pool import NODES, USERS, KubeletPool

pytestmark = pytest.mark.e2e

SET = ("--set=cpuManagerPolicy=static", "--set=topologyManagerPolicy=restricted")


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeletPool]:
    folder = tmp_path_factory.mktemp("pool")
    with ControlPlane(folder / "plane", users=USERS) as plane, KubeletPool(folder, plane) as running:
        yield running


def test_a_pool_is_switched_one_node_at_a_time_and_stops_at_the_first_failure(pool: KubeletPool) -> None:
    before = {name: one.bytes() for name, one in pool.kubelets.items()}
    # Whoever begins fails.
    for one in pool.kubelets.values():
        one.break_next_start()
    pool.start_agents()
    pool.policy("set", "all", *SET)
    first, second = NODES
    try:
        pool.wait("all", {first: "Failed", second: "Pending"})
    except AssertionError:
        first, second = second, first
        pool.wait("all", {first: "Failed", second: "Pending"})
    assert "the unit was told to fail" in pool.nodes("all")[first]["message"]
    assert {name: one.bytes() for name, one in pool.kubelets.items()} == before
    assert all(one.whole() for one in pool.kubelets.values())
    assert not (pool.kubelets[second].folder / "journal" / "000001").exists()
    assert "Failed" in pool.policy("status", "all", status=1)
    assert "NodeFailed" in pool.plane.kubectl("get", "events", "-A")
    nodes = pool.plane.api().get("/api/v1/nodes")["items"]
    assert not any(node["spec"].get("unschedulable") for node in nodes)

    # The same again, with nothing broken.
    for one in pool.kubelets.values():
        one.mend()
    pool.policy("set", "all", *SET)
    pool.wait("all", dict.fromkeys(NODES, "Done"))
    for one in pool.kubelets.values():
        assert one.whole()
        assert one.state("cpu_manager_state")["policyName"] == "static"

    pool.policy("rollback", "all")
    pool.wait("all", dict.fromkeys(NODES, "RolledBack"))
    assert {name: one.bytes() for name, one in pool.kubelets.items()} == before


def test_an_order_is_held_and_an_agent_that_may_not_says_so(pool: KubeletPool) -> None:
    before = {name: one.bytes() for name, one in pool.kubelets.items()}
    pool.start_agent("n1")
    pool.start_agent("n2", "--allow-kubelet-changes")
    pool.policy("set", "held", *SET, "--nodes=kubernetes.io/os=none")
    pool.policy("pause", "held")
    pool.plane.kubectl(
        "patch",
        "kubeletpolicy",
        "held",
        "--type=merge",
        "-p",
        '{"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}}}',
    )
    pool.wait("held", {"n1": "NotAllowed", "n2": "Pending"})
    assert "without --allow-kubelet-changes" in pool.policy("status", "held")
    assert {name: one.bytes() for name, one in pool.kubelets.items()} == before
    pool.policy("resume", "held")
    pool.wait("held", {"n1": "NotAllowed", "n2": "Done"})
    assert pool.kubelets["n1"].bytes() == before["n1"]
