"""A pool of two real kubelets: switched one at a time by their agents; the second is not touched when the first fails."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml
from playwright.sync_api import Browser, expect

from e2e.console_program import ConsoleProgram
from e2e.control_plane import RBAC, ControlPlane
from e2e.kubelet_pool import NODES, USERS, KubeletPool
from e2e.program import eventually

pytestmark = pytest.mark.e2e

DISTANCE = "/rest/scheduling/v1/numadistance"
OPTION = "prefer-closest-numa-nodes"
PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
SET = ("--set=cpuManagerPolicy=static", "--set=topologyManagerPolicy=restricted")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeletPool]:
    folder = tmp_path_factory.mktemp("pool")
    with ControlPlane(folder / "plane", users=USERS) as plane, KubeletPool(folder, plane) as started:
        yield started


@pytest.fixture
def pool(running: KubeletPool, request: pytest.FixtureRequest) -> KubeletPool:
    """The pool without the orders, pods, budgets and rights of other tests, and of earlier tries of this one."""
    running.begin(request.node.name)
    return running


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
    assert "2 nodes: n1, n2\nNothing was ordered" in pool.policy("set", "held", *SET, "--dry-run")
    assert "no nodes with these labels" in pool.policy(
        "set", "held", *SET, "--dry-run", "--nodes=pool=none", status=1
    )
    assert pool.plane.kubectl("get", "kubeletpolicies", "-o", "name") == ""
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


def test_numa_distance_is_locked_without_the_right_and_then_switched_on_and_off_from_the_page(
    pool: KubeletPool, browser: Browser
) -> None:
    pool.start_agents()
    with ConsoleProgram(pool.plane) as console:
        eventually(lambda: console.ask("GET", "/api/v1/policies").status == 200, "the console answers", 60)
        page = browser.new_context(locale="en-US", viewport={"width": 1280, "height": 900}).new_page()
        page.goto(f"{console.url}/policies")
        switch = page.get_by_role("switch", name="NUMA distance")
        expect(switch).to_be_disabled(timeout=20_000)
        expect(page.get_by_text("may not get kubeletpolicies.numaware.io")).to_be_visible()
        expect(page.get_by_text("may not list kubeletpolicies.numaware.io")).to_be_visible()
        refused = console.ask("PUT", f"{DISTANCE}?status=open")
        assert (refused.status, refused.body["data"]["installed"]) == (409, False)
        pool.plane.kubectl("apply", "--server-side", "-f", RBAC / "optional/console-switch-distance.yaml")
        expect(switch).to_be_enabled(timeout=20_000)

        # The plan, and nothing before it is applied.
        switch.click()
        expect(page.locator(".diff .a").filter(has_text=OPTION)).to_be_visible()
        expect(page.get_by_text("restarts once, one node at a time")).to_be_visible()
        assert pool.plane.kubectl("get", "kubeletpolicies", "-o", "name") == ""
        apply = page.get_by_role("button", name="Apply", exact=True)
        expect(apply).to_be_disabled()

        def confirmed() -> None:
            """Nothing is ordered before its name is typed."""
            name = console.ask("GET", "/api/v1/cluster").body["name"]
            page.get_by_label(f"Type {name} to confirm").fill(name)
            apply.click()

        confirmed()
        expect(page.get_by_role("progressbar", name="NUMA distance")).to_be_visible(timeout=20_000)
        expect(page.get_by_role("status").filter(has_text="Applied")).to_be_visible(timeout=90_000)
        expect(switch).to_have_attribute("aria-checked", "true")
        assert pool.phases("numa-distance") == dict.fromkeys(NODES, "Done")
        for one in pool.kubelets.values():
            config = yaml.safe_load(one.config_file.read_text(encoding="utf-8"))
            assert config["topologyManagerPolicyOptions"][OPTION] == "true"
            # On n1 it was missing.
            assert config["cpuManagerPolicy"] == "static"
            assert one.whole()
        assert console.ask("GET", DISTANCE).body["data"]["status"] == "open"

        # The order stands in the list, and off again with the same switch, which is the undo as well.
        expect(page.get_by_text("2 of 2 done")).to_be_visible()
        switch.click()
        expect(page.locator(".diff .d").filter(has_text=OPTION)).to_be_visible()
        confirmed()
        expect(page.get_by_role("progressbar", name="NUMA distance")).to_be_visible(timeout=20_000)
        expect(page.get_by_role("status").filter(has_text="NUMA distance is off")).to_be_visible(
            timeout=90_000
        )
        expect(switch).to_have_attribute("aria-checked", "false")
        assert console.ask("GET", DISTANCE).body["data"]["status"] == "close"
        for one in pool.kubelets.values():
            config = yaml.safe_load(one.config_file.read_text(encoding="utf-8"))
            assert config["topologyManagerPolicyOptions"][OPTION] == "false"
            assert one.whole()
        page.context.close()


def test_a_drain_keeps_to_disruption_budgets_and_is_put_back_where_they_say_no(pool: KubeletPool) -> None:
    """Through the real eviction API, as the kubelet's own account. The budget's controller is played by the test."""
    one, api = pool.kubelets["n1"], pool.plane.api()
    before = one.bytes()
    labels = {"app": "web"}
    budget = {"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}}
    api.create(BUDGETS, budget)

    def allow(disruptions: int) -> None:
        counts = {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}
        status = {"observedGeneration": 1, "disruptionsAllowed": disruptions, **counts}
        api.patch(f"{BUDGETS}/web/status", {"status": {**status, "disruptedPods": None}})

    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    for number in range(2):
        container = {"name": "app", "image": "registry.example/app:1"}
        spec = {"nodeName": "n1", "terminationGracePeriodSeconds": 1, "containers": [container]}
        metadata = {"name": f"web-{number}", "labels": labels, "ownerReferences": [owner]}
        api.create(PODS, {"metadata": metadata, "spec": spec})

    def running() -> set[str]:
        pods = [pod for pod in api.list_all(PODS) if "deletionTimestamp" not in pod["metadata"]]
        return {pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"}

    eventually(lambda: len(running()) == 2, "both pods run", 60)
    allow(1)
    drain = (
        "apply",
        "--set=topologyManagerPolicy=restricted",
        "--drain",
        "--yes",
        f"--kubeconfig={pool.plane.kubeconfig('kubelet-n1')}",
    )
    told = one.numaware(*drain, "--drain-timeout=5", status=1)
    (left,) = running()
    assert f"default/{left}: Cannot evict pod as it would violate the pod's disruption budget." in told
    assert "Rolled back, everything is as it was" in told
    assert one.whole()
    assert one.bytes() == before
    assert not api.get("/api/v1/nodes/n1")["spec"].get("unschedulable")

    allow(1)
    assert "Applied." in one.numaware(*drain, "--drain-timeout=60")
    assert running() == set()
    config = yaml.safe_load(one.config_file.read_text(encoding="utf-8"))
    assert config["topologyManagerPolicy"] == "restricted"
    assert not api.get("/api/v1/nodes/n1")["spec"].get("unschedulable")
