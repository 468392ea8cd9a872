"""The picture of the guide that can be moved, in a real browser: it shows what the twin says, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from numaware.twin.node import Node
from support.twin_nodes import GPU, admitted, config, machine, pod
from support.twin_story import told

ROOT = Path(__file__).parents[2]
BOX = machine(2, 14, devices={GPU: {"gpu0": (0,), "gpu1": (1,), "gpu2": (1,)}})


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    site = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = browser.new_page()
    page.goto(f"file://{site}/kubelet/how-the-kubelet-decides/index.html")
    yield page
    page.close()


@pytest.mark.parametrize(
    ("policy", "cpus", "gpus"), [("single-numa-node", 14, 1), ("restricted", 3, 2), ("best-effort", 28, 3)]
)
def test_what_is_chosen_is_answered_by_the_twin(page: Page, policy: str, cpus: int, gpus: int) -> None:
    page.get_by_label("policy").select_option(policy)
    page.get_by_label("on the machine before").select_option("nothing")
    page.get_by_role("slider", name="CPUs").fill(str(cpus))
    page.get_by_role("slider", name="GPUs").fill(str(gpus))
    node = Node.fresh(BOX, config(policy))
    expect(page.locator("#try pre")).to_have_text(told(node, pod("u", cpus, gpu=gpus)))
    taken = node.admit(pod("u", cpus, gpu=gpus)).admitted
    expect(page.locator("#try > p")).to_have_text("✓ admitted" if taken else "✗ refused")
    ours = page.locator("#try rect title", has_text=": ours")
    expect(ours).to_have_count(cpus + gpus if taken else 0)


def test_pods_that_were_there_before_are_drawn_and_counted(page: Page) -> None:
    page.get_by_label("policy").select_option("best-effort")
    page.get_by_label("on the machine before").select_option("10 CPUs")
    page.get_by_role("slider", name="CPUs").fill("12")
    page.get_by_role("slider", name="GPUs").fill("0")
    node = admitted(Node.fresh(BOX, config("best-effort")), pod("a", 10))
    expect(page.locator("#try pre")).to_have_text(told(node, pod("u", 12)))
    expect(page.locator("#try rect title", has_text=": others")).to_have_count(10)
    expect(page.locator("#try rect title", has_text=": reserved")).to_have_count(1)
