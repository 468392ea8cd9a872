"""Going back in time in a real browser: by the bar, by the keys, and by a link that somebody sent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from numaware.serve.console.api.routes import Console
from numaware.serve.console.history.api import History
from numaware.serve.console.history.file import HOUR
from numaware.serve.console.lab.world import LabWorld
from support.console_server import RunningConsole, running
from support.console_world import NOW
from support.recorded_world import moment

MINUTE = 60_000
PAST = NOW - 20 * MINUTE


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    """The lab with the hour it has lived in a file, at a moment that only the test moves."""
    path: Path = tmp_path_factory.mktemp("history") / "lab.db"

    def make() -> Console:
        world = LabWorld(NOW - HOUR)
        found = Console(world, lambda: world.now, History(path))
        for time in range(NOW - HOUR, NOW + 1, 30_000):
            world.advance(time)
            found.write_down(wait=True)
        return found

    with running(make) as found:
        yield found


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(
        viewport={"width": 1440, "height": 900},
        timezone_id="UTC",
        locale="en-GB",
        reduced_motion="reduce",
    )
    found = context.new_page()
    problems: list[str] = []
    found.on("pageerror", lambda error: problems.append(str(error)))
    yield found
    assert not problems
    context.close()


def refusals(page: Page) -> str:
    return page.locator(".kpi", has_text="Refusals").locator(".big").inner_text()


def test_one_goes_back_looks_around_and_returns(page: Page, server: RunningConsole) -> None:
    page.goto(f"{server.url}/overview")
    expect(page.locator(".tile").first).to_be_visible()
    now = refusals(page)
    page.get_by_role("button", name="Time", exact=True).click()
    bar = page.get_by_role("region", name="Look back in time")
    bar.get_by_label("Moment").fill("2027-01-15T07:25:00")
    expect(bar).to_contain_text("You look at 2027-01-15 07:25:00")
    expect(page).to_have_url(re.compile(r"/overview\?at=2027-01-15T07:25:00Z$"))
    expect(page.locator(".live")).to_contain_text("past · 07:25:00")
    expect(page.locator(".kpi", has_text="Refusals").locator(".big")).not_to_have_text(now)
    # Every page is one of then: links keep the moment, and nothing can be switched.
    page.get_by_role("link", name="Policies").click()
    expect(page).to_have_url(re.compile(r"/policies\?at=2027-01-15T07:25:00Z$"))
    switch = page.get_by_role("switch").first
    expect(switch).to_be_disabled()
    expect(switch).to_have_attribute("aria-checked", "false")
    page.get_by_role("button", name="Back to now").click()
    expect(page).to_have_url(re.compile(r"/policies$"))
    expect(switch).to_be_enabled()
    expect(switch).to_have_attribute("aria-checked", "true")
    page.go_back()
    expect(switch).to_be_disabled()


def test_the_scrubber_shows_refusals_and_leads_to_their_moment(page: Page, server: RunningConsole) -> None:
    page.goto(f"{server.url}/overview")
    expect(page.locator(".tile").first).to_be_visible()
    page.get_by_role("button", name="Time", exact=True).click()
    bar = page.get_by_role("region", name="Look back in time")
    expect(bar).to_contain_text("in lab.db")
    expect(bar).to_contain_text("at most 7 days and 1 GiB")
    expect(bar.locator("rect.kept")).to_have_count(1)
    assert bar.locator("rect.bar").count() > 3
    slider = bar.get_by_role("slider", name="Refusals over the time that is kept")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"08:00:00: \d+ refusals?$"))
    most = int(slider.get_attribute("max") or 0)
    # By keyboard, each step a moment that can be gone to.
    slider.focus()
    page.keyboard.press("ArrowLeft")
    expect(page).to_have_url(re.compile(r"at=2027-01-15T07:59:"))
    slider.fill(str(most // 3))
    expect(page).to_have_url(re.compile(r"at=2027-01-15T07:20:"))
    expect(bar).to_contain_text("You look at 2027-01-15 07:20:")
    expect(slider).to_have_value(str(most // 3))
    expect(bar.locator(".cross")).to_have_count(1)
    assert wrong(page) == []
    page.get_by_role("button", name="中文").click()
    expect(page.get_by_role("slider", name="所保存时间内的拒绝次数")).to_be_visible()
    page.set_viewport_size({"width": 800, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 800


def test_a_link_to_a_moment_opens_it_and_keys_step_through_the_changes_of_a_node(
    page: Page, server: RunningConsole
) -> None:
    page.goto(f"{server.url}/nodes/gpu-0?at={moment(PAST).replace('+00:00', 'Z')}")
    bar = page.get_by_role("region", name="Look back in time")
    expect(bar).to_contain_text("You look at 2027-01-15 07:40:00")
    expect(page.get_by_role("heading", name="gpu-0")).to_be_visible()
    there = page.url
    expect(bar.get_by_role("button", name="Earlier change of gpu-0")).to_be_enabled()
    page.keyboard.press("[")
    expect(page).not_to_have_url(there)
    earlier = page.url
    expect(bar.get_by_role("button", name="Earlier change of gpu-0")).to_be_enabled()
    page.keyboard.press("[")
    expect(page).not_to_have_url(earlier)
    expect(bar.get_by_role("button", name="Later change of gpu-0")).to_be_enabled()
    page.keyboard.press("]")
    expect(page).to_have_url(earlier)
    assert "at=2027-01-15T07:" in earlier


def test_the_past_stands_still_while_the_world_goes_on(page: Page, server: RunningConsole) -> None:
    page.goto(f"{server.url}/pods?at={moment(PAST).replace('+00:00', 'Z')}")
    expect(page.locator("tbody tr").first).to_be_visible()
    before = page.locator("main").inner_text()
    server.advance(5 * MINUTE)
    page.wait_for_timeout(2500)
    assert page.locator("main").inner_text() == before


def test_a_moment_that_is_not_kept_is_told_and_the_way_back_is_there(
    page: Page, server: RunningConsole
) -> None:
    page.goto(f"{server.url}/overview?at=2026-01-01T00:00:00Z")
    expect(page.get_by_role("alert")).to_contain_text(
        "nothing is kept of that time; kept from 2027-01-15T07:00:00Z"
    )
    page.get_by_role("button", name="Back to now").click()
    expect(page.locator(".tile").first).to_be_visible()
    expect(page.locator(".errbar")).to_have_count(0)


def wrong(page: Page) -> list[tuple[str, str]]:
    """What axe finds."""
    return [(one["id"], one["nodes"][0]["html"][:200]) for one in Axe().run(page).response["violations"]]


@pytest.mark.parametrize("path", ["/overview", "/nodes/gpu-0", "/policies", "/monitoring"])
def test_the_past_pleases_axe_in_both_themes(page: Page, server: RunningConsole, path: str) -> None:
    page.goto(f"{server.url}{path}?at={moment(PAST).replace('+00:00', 'Z')}")
    expect(page.get_by_role("button", name="Earlier change")).to_be_enabled()
    expect(page.locator("h1").first).to_be_attached()
    expect(page.locator(".bone")).to_have_count(0)
    assert wrong(page) == []
    page.get_by_role("button", name="Dark", exact=True).click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert wrong(page) == []


def test_it_reads_in_chinese_and_fits_a_phone(page: Page, server: RunningConsole) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{server.url}/overview?lang=zh&at={moment(PAST).replace('+00:00', 'Z')}")
    bar = page.get_by_role("region", name="回看历史")
    expect(bar).to_contain_text("正在查看 2027-01-15 07:40:00")
    expect(bar.get_by_role("button", name="回到现在")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_console_that_keeps_nothing_says_what_would_keep_it(page: Page) -> None:
    def make() -> Console:
        world = LabWorld(NOW - 60_000)
        return Console(world, lambda: world.now)

    with running(make) as found:
        page.goto(f"{found.url}/overview")
        expect(page.locator(".tile").first).to_be_visible()
        page.keyboard.press("t")
        bar = page.get_by_role("region", name="Look back in time")
        expect(bar).to_contain_text("--record FILE")
        page.goto(f"{found.url}/overview?at=2027-01-15T07:25:00Z")
        expect(page.get_by_role("alert")).to_contain_text("nothing is kept of that time")
