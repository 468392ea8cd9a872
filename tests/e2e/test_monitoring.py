"""The Monitoring page in a real browser, on what a real Prometheus has scraped from a real agent."""

from __future__ import annotations

import re
import shutil
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from e2e.control_plane import free_port
from e2e.program import Program, eventually
from e2e.real_prometheus import TOKEN, Prometheus
from numaware.machine import synthetic
from numaware.machine.topology import Machine
from support import made_sysfs

pytestmark = pytest.mark.e2e

NODE = "worker-7"
# Pages a second by NUMA node, and the share of CPU time that is not idle.
HITS = (4000, 1000)
LOCAL = (900, 700)
OTHER = (100, 300)
BUSY = (0.25, 0.75)
TICKS = 100


class MadeKernel:
    """Counts on in the files of a made machine, as a kernel does."""

    def __init__(self, root: Path, machine: Machine) -> None:
        self.root = root
        self.machine = machine
        self.began = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)

    @contextmanager
    def counting(self) -> Iterator[None]:
        self._thread.start()
        yield
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._over.wait(0.25):
            seconds = time.monotonic() - self.began
            for node in self.machine.numa:
                counts = {"numa_hit": HITS, "local_node": LOCAL, "other_node": OTHER}
                lines = [f"{name} {int(rates[node.id] * seconds)}" for name, rates in counts.items()]
                lines += ["numa_miss 7", "numa_foreign 7", "interleave_hit 7"]
                self._put(f"sys/devices/system/node/node{node.id}/numastat", lines)
            self._put("proc/stat", ["cpu  0 0 0 0 0 0 0 0", *self._ticks(seconds)])

    def _ticks(self, seconds: float) -> Iterator[str]:
        for node in self.machine.numa:
            busy = int(TICKS * seconds * BUSY[node.id])
            idle = int(TICKS * seconds) - busy
            for cpu in node.cpus:
                yield f"cpu{cpu} {busy} 0 0 {idle} 0 0 0 0"

    def _put(self, path: str, lines: list[str]) -> None:
        """All at once: nobody reads half a file from a kernel."""
        new = self.root / "new"
        new.write_text("\n".join(lines) + "\n", encoding="ascii")
        new.rename(self.root / path)


class Scene:
    def __init__(self, url: str, prometheus: Prometheus, agent: Program, machine: Machine) -> None:
        self.url = url
        self.prometheus = prometheus
        self.agent = agent
        self.machine = machine


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("monitoring")
    machine = synthetic.read("2s x 1n x 4c mem=32Gi")
    made = made_sysfs.write(folder / "machine", machine)
    token = folder / "token"
    token.write_text(TOKEN)
    numaware = Path(sys.executable).with_name("numaware")
    exporter, port = free_port(), free_port()
    options = [f"--node={NODE}", "--no-publish", f"--root={made}", "--pods=0", f"--token-file={token}"]
    agent = Program(
        "agent", [numaware, "agent", *options, f"--listen=127.0.0.1:{exporter}"], folder / "agent.log"
    )
    prometheus = Prometheus(folder, f"127.0.0.1:{exporter}")
    console = Program(
        "console",
        [numaware, "up", "--no-browser", "--no-record", f"--port={port}", f"--prometheus={prometheus.url}"],
        folder / "console.log",
    )
    url = f"http://127.0.0.1:{port}"
    with MadeKernel(made, machine).counting(), agent, prometheus.program, console:
        eventually(lambda: url in console.tail(), "the console prints its address", 60, console)
        # Two scrapes before a round moment, at which the page looks.
        eventually(
            lambda: prometheus.query("count_over_time(numa_node_hit_pages_total[1m] offset 15s) > 2"),
            "there is something to draw",
            60,
            prometheus.program,
        )
        yield Scene(url, prometheus, agent, machine)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    assert program, "there is no chromium; on Debian: apt-get install chromium"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(locale="en-US", viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()


def chart(page: Page, title: str) -> dict[str, float]:
    """The last value of each line of a chart, as the chart tells it to those who cannot see it."""
    found = page.get_by_role("img", name=re.compile(f"^{title}, "))
    expect(found).to_be_visible(timeout=30_000)
    name = found.get_attribute("aria-label") or ""
    return {line: float(last) for line, last in re.findall(r"(NUMA \d+): last ([\d.]+)", name)}


def test_the_charts_have_the_values_of_the_machine(scene: Scene, page: Page) -> None:
    page.goto(f"{scene.url}/monitoring?node={NODE}&range=15m")
    busy = chart(page, "Busy CPUs")
    assert busy == {f"NUMA {node}": pytest.approx(100 * share, abs=2) for node, share in enumerate(BUSY)}
    remote = chart(page, "Remote memory access")
    assert remote == {"NUMA 0": pytest.approx(10, abs=0.5), "NUMA 1": pytest.approx(30, abs=0.5)}
    kernel = {f"NUMA {node.id}": made_sysfs.meminfo(node) for node in scene.machine.numa}
    free = {name: round(found["MemFree"] / (1 << 20), 1) for name, found in kernel.items()}
    assert chart(page, r"Memory that the kernel has left \(MemFree\)") == free
    assert chart(page, "NUMA misses") == {"NUMA 0": 0, "NUMA 1": 0}
    # This agent tells nothing of pods.
    expect(page.get_by_text("Prometheus has no numa_pod_remote_memory_ratio of this node")).to_be_visible()


def test_a_chart_draws_what_prometheus_itself_answers(scene: Scene, page: Page) -> None:
    with page.expect_request(re.compile("query_range.*numa_node_hit")) as asked:
        page.goto(f"{scene.url}/monitoring?node={NODE}&range=15m")
    drawn = chart(page, "NUMA hits")
    question = urllib.parse.urlsplit(asked.value.url).query
    own = {
        f"NUMA {one['metric']['numa']}": float(one["values"][-1][1])
        for one in scene.prometheus.ask(f"query_range?{question}")
    }
    # Above a thousand a chart tells hundreds.
    assert len(own) == 2
    thousands = {
        name: round(value / 1000, 1) if value >= 1000 else round(value, 1) for name, value in own.items()
    }
    assert drawn == thousands


def test_a_node_of_the_lab_is_told_apart_from_what_prometheus_knows(scene: Scene, page: Page) -> None:
    page.goto(f"{scene.url}/monitoring?node=gpu-1")
    expect(page.get_by_text("Prometheus answers, but has nothing about gpu-1")).to_be_visible(timeout=30_000)
    expect(page.get_by_text(f"It knows {NODE}. Choose one of them")).to_be_visible()
    expect(page.get_by_text("It knows 1 exporter of NUMA metrics.")).to_be_visible()
    page.get_by_role("combobox").select_option(NODE)
    expect(page.get_by_role("heading", name=f"Measured on {NODE}")).to_be_visible(timeout=30_000)


def test_an_exporter_and_a_prometheus_that_end_are_told_one_after_the_other(scene: Scene, page: Page) -> None:
    scene.agent.stop()
    eventually(
        lambda: scene.prometheus.query('up{job="numaware-agent"} == 0'),
        "the target is down",
        30,
        scene.prometheus.program,
    )
    page.goto(f"{scene.url}/monitoring?node=gpu-1")
    target = scene.prometheus.query("up")[0]["metric"]["instance"]
    expect(page.get_by_text(f"No answer from {target}.")).to_be_visible(timeout=30_000)
    scene.prometheus.program.stop()
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("Prometheus cannot be reached.", timeout=30_000)
    expect(page.get_by_role("img", name=re.compile("^CPU in use"))).to_be_visible()
