"""The console on a real API server, in a real browser: nodes as agents report them, pods as the scheduler places them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from e2e.console_program import ConsoleProgram
from e2e.control_plane import ControlPlane
from e2e.fake_nodes import FakeNodes
from e2e.ours import Daemon
from e2e.program import eventually
from numaware.serve.console.lab.world import lab_cluster

pytestmark = pytest.mark.e2e

PODS = "/api/v1/namespaces/default/pods"
NAMES = ("box-0", "gpu-0", "epyc-0")


def pod(name: str, cpu: str) -> dict[str, object]:
    wanted = {"cpu": cpu, "memory": "4Gi"}
    container = {
        "name": "app",
        "image": "registry.example/app",
        "resources": {"limits": wanted, "requests": wanted},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": "numaware", "containers": [container]},
    }


@pytest.fixture(scope="module")
def fakes(plane: ControlPlane) -> Iterator[FakeNodes]:
    specs = [node for node in lab_cluster().nodes if node.name in NAMES]
    with FakeNodes(plane, specs) as started:
        yield started


@pytest.fixture(scope="module")
def console(plane: ControlPlane, fakes: FakeNodes) -> Iterator[ConsoleProgram]:
    with ConsoleProgram(plane) as program:
        eventually(lambda: program.url in program.tail(), "the console prints its address", 60, program)
        yield program


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(locale="en-US", viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()


def test_nodes_and_pods_appear_as_they_come(
    plane: ControlPlane, fakes: FakeNodes, console: ConsoleProgram, page: Page
) -> None:
    page.goto(f"{console.url}/overview?shape=cpu:10,mem:40Gi,gpu:0")
    expect(page.locator(".tile")).to_have_count(len(NAMES))
    expect(page.locator(".tile.aligned")).to_have_count(len(NAMES))
    with Daemon(plane, "scheduler") as scheduler:
        scheduler.wait_ready()
        plane.api().create_all(PODS, [pod(f"web-{number}", "6") for number in range(3)])
        eventually(lambda: len(fakes.running()) == 3, "three pods run", 60, scheduler)
        where = {admission.node for admission in fakes.admissions()}
        page.goto(f"{console.url}/pods")
        expect(page.get_by_role("link", name="default/web-0")).to_be_visible(timeout=20_000)
        expect(page.get_by_text("3 run")).to_be_visible(timeout=20_000)
        page.goto(f"{console.url}/nodes/{next(iter(where))}")
        expect(page.locator("aside .key").first).to_have_text("A")
        expect(page.locator(".zone .hold .let").first).to_have_text("A")
        page.get_by_role("link", name="default/web-").first.click()
        expect(
            page.get_by_text("as predicted", exact=True).or_(page.get_by_text("not as predicted"))
        ).to_be_visible(timeout=20_000)


def test_a_pod_that_no_node_takes_is_shown_waiting_with_its_message(
    plane: ControlPlane, console: ConsoleProgram, page: Page
) -> None:
    with Daemon(plane, "scheduler") as scheduler:
        scheduler.wait_ready()
        plane.api().create(PODS, pod("huge", "500"))
        page.goto(f"{console.url}/pods/default/huge")
        expect(
            page.get_by_text(re.compile("It waits for a node since .* 0/3 nodes are available")).first
        ).to_be_visible(timeout=30_000)


def test_a_live_cluster_is_looked_at_and_not_switched(console: ConsoleProgram, page: Page) -> None:
    page.goto(f"{console.url}/policies")
    expect(page.get_by_text("not installed")).to_have_count(1)
    # The kinds behind NUMA distance and runtime pod affinity are there, the right to use them is not.
    expect(page.get_by_text("locked", exact=True)).to_have_count(2)
    expect(page.get_by_role("switch", name="Cluster NUMA affinity")).to_be_disabled()
    expect(page.get_by_role("rowheader", name="epyc")).to_be_visible()
