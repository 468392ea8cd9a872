"""The Monitoring page with a Prometheus, without one, and with one that is broken in every way it can be."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect

from browser.test_console import OUTSIDE, TEXTS, WRITTEN, few, opened, wrong
from numaware.serve.console.app import Access
from numaware.serve.console.openfuyao import prometheus
from support.console_server import RunningConsole, running
from support.fake_prometheus import Manner, fake_prometheus

NODES = ("gpu-1", "gpu-2", "worker-7.example")
PAGE = "/monitoring?node=gpu-1"
CHARTS = (
    "Busy CPUs",
    "Memory used",
    r"Memory that the kernel has left \(MemFree\)",
    "Remote memory access",
    "NUMA hits",
    "NUMA misses",
    "Foreign allocations",
)


@contextmanager
def measured(
    manner: Manner = "good", nodes: tuple[str, ...] = NODES, down: tuple[str, ...] = ()
) -> Iterator[RunningConsole]:
    with (
        fake_prometheus(manner, nodes, down) as found,
        running(few, Access("127.0.0.1:0", prometheus=found.url)) as server,
    ):
        yield server


@pytest.fixture(scope="module")
def server() -> Iterator[RunningConsole]:
    with measured() as found:
        yield found


def check(page: Page, place: int) -> str:
    """What the page says of one of the three checks."""
    return " ".join(page.locator(".try li").nth(place).inner_text().split())


def looks_right(page: Page) -> None:
    """It fits a phone and a wall screen, pleases axe in both themes, and speaks Chinese."""
    for width in (390, 2560, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(WRITTEN, "")
        assert (width, page.evaluate(OUTSIDE)) == (width, [])
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert wrong(page) == []
    page.get_by_role("button", name="Dark", exact=True).click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert wrong(page) == []
    page.get_by_role("button", name="中文").click()
    expect(page.locator("html")).to_have_attribute("lang", "zh")
    texts = page.evaluate(TEXTS)
    assert [text for text in texts if re.search(r"[A-Za-z]{3,} [a-z]{2,} [a-z]{2,}", text)] == []


# Measured


def test_what_prometheus_has_of_a_node_is_drawn_by_numa_node(
    browser: Browser, server: RunningConsole
) -> None:
    with opened(browser, server, PAGE) as page:
        expect(page.get_by_role("heading", name="Measured on gpu-1")).to_be_visible()
        for title in CHARTS:
            chart = page.get_by_role("img", name=re.compile(rf"^{title}, .*NUMA 0: last .*NUMA 1: last"))
            expect(chart).to_be_visible()
        expect(page.get_by_role("img", name=re.compile("^Busy CPUs, .* NUMA 0: last 40,"))).to_be_visible()
        expect(page.get_by_role("img", name=re.compile("^NUMA hits, .* NUMA 1: last 750,"))).to_be_visible()
        pods = page.get_by_role("img", name=re.compile("^Remote memory of pods, .* default.far: last 25,"))
        expect(pods).to_be_visible()
        refusals = page.get_by_role("img", name=re.compile("^Refusals that kubelets counted, per 2 min"))
        expect(refusals).to_be_visible()
        expect(page.get_by_text("alert at 20 %").first).to_be_visible()
        expect(page.get_by_role("heading", name="Recorded by this console")).to_be_visible()
        expect(page.get_by_role("img", name=re.compile("^CPU in use"))).to_be_visible()


def test_the_worst_nodes_lead_to_their_own_charts(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, PAGE) as page:
        rows = page.locator(".heat tbody tr")
        expect(rows).to_have_count(len(NODES))
        # Named by how much of their memory is remote, the worst first.
        assert [row.split("\t")[0] for row in rows.all_inner_texts()] == list(reversed(NODES))
        page.get_by_role("link", name="gpu-2").click()
        expect(page.get_by_role("heading", name="Measured on gpu-2")).to_be_visible()


def test_a_node_that_only_prometheus_knows_can_be_chosen(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, PAGE) as page:
        page.get_by_role("combobox").select_option("worker-7.example")
        expect(page.get_by_role("heading", name="Measured on worker-7.example")).to_be_visible()
        expect(page.get_by_role("img", name=re.compile("^Busy CPUs"))).to_be_visible()
        expect(page.get_by_role("img", name=re.compile("^CPU in use"))).to_have_count(0)


def test_ranges_are_asked_for_in_steps_that_suit_them(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, f"{PAGE}&range=7d") as page:
        slider = page.get_by_role("slider", name="Busy CPUs, moment by moment")
        ranges = page.get_by_role("group", name="Range")
        for button, step, points in (
            ("15 min", 15, 61),
            ("1 h", 15, 241),
            ("6 h", 60, 361),
            ("24 h", 300, 289),
            ("7 d", 1800, 337),
        ):
            with page.expect_request(re.compile(rf"query_range.*memory_used.*step={step}$")):
                ranges.get_by_role("button", name=button, exact=True).click()
            expect(slider).to_have_attribute("max", str(points - 1))


def test_a_chart_is_read_by_pointer_keyboard_and_table(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, PAGE) as page:
        slider = page.get_by_role("slider", name="Busy CPUs, moment by moment")
        expect(slider).to_have_attribute("aria-valuetext", re.compile(r"\d\d:\d\d: NUMA 0 40, NUMA 1 20"))
        slider.focus()
        page.keyboard.press("Home")
        first = slider.get_attribute("aria-valuetext") or ""
        assert re.fullmatch(r"\d\d:\d\d: NUMA 0 [\d.]+, NUMA 1 [\d.]+", first)
        # One crosshair for all charts of that time.
        measured_charts = page.locator(".charts").first.locator(".cross")
        expect(measured_charts).to_have_count(len(CHARTS) + 2)
        page.keyboard.press("ArrowRight")
        expect(slider).to_have_value("1")
        page.keyboard.press("Escape")
        expect(page.locator(".cross")).to_have_count(0)
        box = page.locator(".plot").first.bounding_box()
        assert box is not None
        height = page.locator(".charts").first.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
        expect(measured_charts).to_have_count(len(CHARTS) + 2)
        assert page.locator(".charts").first.bounding_box() == height
        page.locator(".chart summary").first.click()
        expect(page.get_by_role("columnheader", name="NUMA 1").first).to_be_visible()


def test_the_page_with_a_prometheus_looks_right(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, PAGE) as page:
        expect(page.get_by_role("img", name=re.compile("^Busy CPUs"))).to_be_visible()
        looks_right(page)


# Time

# What is written below the charts of each of the two parts of the page: as many times as there are charts, or once.
AXES = """() => [...document.querySelectorAll(".charts")].map(part => new Set([...part.querySelectorAll("svg[role=img]")].map(
  chart => [...chart.children].filter(one => one.tagName === "text" && /^\\d\\d:\\d\\d$/.test(one.textContent)).map(
    one => one.textContent).join(" "))).size)"""


def test_two_switches_at_one_moment_are_two_marks(browser: Browser) -> None:
    """A script may switch off and on again within a second."""
    with running(few) as server:
        for status in ("close", "open"):
            moved = server.console.world.set_switch("numaaware", status, "somebody")
            asyncio.run_coroutine_threadsafe(moved, server.loop).result(60)
        server.advance(60_000)
        with opened(browser, server, PAGE) as page:
            chart = page.locator(".chart").filter(has_text="Aligned pods")
            # The one with which the lab began its life, and these two.
            expect(chart.locator("path.mark")).to_have_count(3)
            expect(chart.get_by_text(re.compile("NUMA affinity (on|off)")).last).to_have_text(
                "NUMA affinity on"
            )


@pytest.mark.parametrize("prometheus", [False, True])
def test_all_charts_end_at_one_time(browser: Browser, server: RunningConsole, *, prometheus: bool) -> None:
    with running(few) as lab, opened(browser, server if prometheus else lab, PAGE) as page:
        ranges = page.get_by_role("group", name="Range")
        for button, step in (("15 min", "30 s"), ("6 h", "12 min"), ("1 h", "2 min")):
            ranges.get_by_role("button", name=button, exact=True).click()
            expect(page.locator(".chart", has_text="Refusals, whole cluster")).to_contain_text(f"per {step}")
            if prometheus:
                title = "Refusals that kubelets counted"
                expect(page.locator(".chart", has_text=title)).to_contain_text(re.compile("per (2|15) min"))
            assert page.evaluate(AXES) == [1, 1][prometheus - 1 :]


# Not measured


def test_without_a_prometheus_the_page_tells_what_would_give_data(browser: Browser) -> None:
    with running(few) as server, opened(browser, server, PAGE) as page:
        expect(page.get_by_role("img", name=re.compile("^CPU in use"))).to_be_visible()
        expect(page.get_by_role("heading", name="What nodes measure themselves")).to_be_visible()
        expect(page.get_by_text("The lab's machines are models without a kernel")).to_be_visible()
        assert "curl -s http://gpu-1:9201/metrics" in check(page, 0)
        assert "no numaware up --prometheus http://127.0.0.1:9090" in check(page, 1)
        assert 'numa_node_cpus_count{node="gpu-1"}' in check(page, 2)
        looks_right(page)


def test_a_node_without_series_is_told_from_one_without_an_exporter(browser: Browser) -> None:
    with (
        measured(nodes=("gpu-2",), down=("gpu-1:9201",)) as server,
        opened(browser, server, PAGE) as page,
    ):
        expect(page.get_by_text("Prometheus answers, but has nothing about gpu-1")).to_be_visible()
        assert "no No answer from gpu-1:9201." in check(page, 0)
        assert "yes It knows 2 exporters of NUMA metrics." in check(page, 1)
        assert "no It knows gpu-2. Choose one of them" in check(page, 2)
        looks_right(page)


def test_a_prometheus_that_scrapes_nobody_is_told_as_that(browser: Browser) -> None:
    with measured("empty") as server, opened(browser, server, PAGE) as page:
        expect(page.get_by_text("Prometheus answers, but has nothing about gpu-1")).to_be_visible()
        assert "no It knows 0 exporters" in check(page, 1)


# Broken


@pytest.mark.parametrize(
    ("manner", "sentence", "detail"),
    [
        ("overloaded", "Prometheus answers with an error.", "500: too many samples"),
        ("starting", "Prometheus answers with an error.", "503 Service Unavailable"),
        ("html", "What answers there is no Prometheus.", "no answer that can be passed on"),
        ("no-prometheus", "What answers there is no Prometheus.", "no answer of a Prometheus"),
        ("silent", "Prometheus did not answer in time.", "did not answer in time"),
        ("gone", "Prometheus cannot be reached.", "cannot be reached"),
    ],
)
def test_a_broken_prometheus_is_told_and_the_rest_stays(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, manner: str, sentence: str, detail: str
) -> None:
    monkeypatch.setattr(prometheus, "_SECONDS", 2.0)
    with (
        fake_prometheus("good" if manner == "gone" else manner) as found,  # type: ignore[arg-type] # a Manner
        running(
            few,
            Access("127.0.0.1:0", prometheus="http://127.0.0.1:9" if manner == "gone" else found.url),
        ) as server,
        opened(browser, server, PAGE) as page,
    ):
        expect(page.get_by_role("alert")).to_contain_text(sentence)
        expect(page.get_by_role("alert")).to_contain_text("it is asked again every 15 s")
        page.locator("summary", has_text="Details").click()
        expect(page.locator("pre")).to_contain_text(detail)
        expect(page.locator(".try li")).to_have_count(3)
        expect(page.get_by_role("img", name=re.compile("^CPU in use"))).to_be_visible()
        if manner == "overloaded":
            looks_right(page)


def test_one_question_that_fails_leaves_the_other_charts(browser: Browser, server: RunningConsole) -> None:
    context = browser.new_context(locale="en-US")
    page = context.new_page()
    page.route(
        re.compile("query_range.*numa_node_hit"),
        lambda route: route.fulfill(status=422, json={"status": "error", "error": "too many points"}),
    )
    page.goto(server.url + PAGE)
    expect(page.get_by_text("Prometheus did not say: too many points")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("^NUMA misses"))).to_be_visible()
    context.close()


def test_a_prometheus_that_breaks_while_one_looks_is_told(browser: Browser) -> None:
    with measured() as server, opened(browser, server, PAGE, refused=502) as page:
        expect(page.get_by_role("img", name=re.compile("^Busy CPUs"))).to_be_visible()
        page.route(
            re.compile("query_range"),
            lambda route: route.fulfill(
                status=502, json={"code": 502, "msg": "Prometheus cannot be reached"}
            ),
        )
        page.get_by_role("group", name="Range").get_by_role("button", name="6 h").click()
        expect(page.get_by_role("alert")).to_contain_text("Prometheus answers with an error.")
        page.locator("summary", has_text="Details").click()
        expect(page.locator("pre")).to_have_text("Prometheus cannot be reached")
