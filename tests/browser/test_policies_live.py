"""The Policies page of a live cluster in states that last only seconds there, or that nobody wants to bring about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from numaware.sentence import quoted
from numaware.serve.console.api.routes import Console
from numaware.serve.console.live_cluster import LiveCluster
from numaware.serve.console.openfuyao.volcano_conf import PLACE, switched
from numaware.serve.console.world import AFFINITY, RUNTIME, Change, Progress, Status, Switch
from numaware.twin.node import Node
from support.cache_world import Clock, cache_of, live_node
from support.console_server import RunningConsole, running
from support.console_world import NOW
from support.twin_nodes import config, machine
from support.volcano_cluster import CONF

REASON = "the scheduler did not come up (ReplicaSet timed out progressing.); it was put back as it was"


class StillVolcano:
    """A switch that stands as the test has put it."""

    def __init__(self) -> None:
        self.switch = Switch(AFFINITY, "close", place=PLACE, conf=CONF)

    async def read(self) -> None:
        """It stands there."""

    def switched(self, status: Status) -> str:
        return switched(self.switch.conf, status)


class StillAffinity:
    """The other one: it is there, and off."""

    switch = Switch(RUNTIME, "close", place="Oenuma tcs/podafi", conf="updateenable: disable\n")

    async def read(self) -> None:
        """It stands there."""

    def switched(self, status: Status) -> str:
        return f"updateenable: {'enable' if status == 'open' else 'disable'}\n"


def still_console() -> Console:
    clock = Clock()
    cache = cache_of(live_node(Node.fresh(machine(2, 4), config("restricted"))), clock=clock)
    parts: Any = (StillVolcano(), StillAffinity())
    world = LiveCluster("prod", cache, clock, NOW, parts)
    return Console(world, lambda: world.now)


@pytest.fixture(scope="module")
def server() -> Iterator[RunningConsole]:
    with running(still_console) as found:
        yield found


def put(server: RunningConsole, switch: Switch, *changes: Change) -> None:
    def change(found: Any) -> None:
        found.world._parts[AFFINITY].switch = switch
        found.world.changes[:] = changes

    server.do(change)


@contextmanager
def opened(browser: Browser, server: RunningConsole, language: str = "en-US") -> Iterator[Page]:
    context = browser.new_context(locale=language, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(f"{server.url}/policies")
    expect(page.locator(".sw")).to_have_count(3)
    yield page
    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()
    context.close()


@pytest.mark.parametrize(
    ("progress", "english", "chinese"),
    [
        (Progress("writing"), "Writing the configuration", "正在写入配置"),
        (Progress("restarting", 1, 3), "1 of 3 pods ready", "3 个 Pod 中 1 个就绪"),
        (Progress("undoing", 0, 1), "Putting everything back", "正在恢复原状"),
    ],
)
def test_how_far_a_switch_is_that_somebody_moves(
    browser: Browser, server: RunningConsole, progress: Progress, english: str, chinese: str
) -> None:
    put(server, Switch(AFFINITY, "close", place=PLACE, conf=CONF, progress=progress))
    for language, text in (("en-US", english), ("zh-CN", chinese)):
        with opened(browser, server, language) as page:
            expect(page.get_by_role("status").filter(has_text=text)).to_be_visible()
            expect(page.get_by_role("progressbar")).to_be_visible()
            expect(page.get_by_role("switch").first).to_be_disabled()


def test_a_map_that_cannot_be_used_is_not_switched(browser: Browser, server: RunningConsole) -> None:
    put(
        server,
        Switch(AFFINITY, "close", place=PLACE, broken=quoted(f"{PLACE}: volcano-scheduler.conf: is empty")),
    )
    with opened(browser, server) as page:
        expect(page.get_by_text("cannot be used")).to_be_visible()
        expect(page.get_by_text(re.compile("is empty"))).to_be_visible()
        expect(page.get_by_role("switch", name="Cluster NUMA affinity")).to_be_disabled()


def test_what_was_put_back_is_told_and_cannot_be_undone(browser: Browser, server: RunningConsole) -> None:
    put(
        server,
        Switch(AFFINITY, "open", place=PLACE, conf=switched(CONF, "open")),
        Change(NOW - 60_000, AFFINITY, "close", "open", "10.0.0.1"),
    )
    with opened(browser, server) as page:
        expect(page.get_by_role("button", name="Undo")).to_be_visible()
    put(
        server,
        Switch(AFFINITY, "close", place=PLACE, conf=CONF),
        Change(NOW - 60_000, AFFINITY, "close", "open", "10.0.0.1", quoted(REASON)),
    )
    with opened(browser, server) as page:
        expect(page.get_by_text("put back", exact=True)).to_be_visible()
        expect(page.get_by_text(REASON)).to_be_visible()
        expect(page.get_by_role("button", name="Undo")).to_have_count(0)


def test_a_change_says_that_the_scheduler_is_watched(browser: Browser, server: RunningConsole) -> None:
    put(server, Switch(AFFINITY, "close", place=PLACE, conf=CONF))
    with opened(browser, server) as page:
        page.get_by_role("switch", name="Cluster NUMA affinity").click()
        expect(page.locator(".diff .a")).to_have_text("+   - name: numa-aware")
        expect(page.get_by_text("watched until it is ready")).to_be_visible()
        expect(page.get_by_text("The scheduler restarts once")).to_be_visible()


def test_runtime_affinity_restarts_nothing_and_says_so(browser: Browser, server: RunningConsole) -> None:
    put(server, Switch(AFFINITY, "close", place=PLACE, conf=CONF))
    with opened(browser, server) as page:
        page.get_by_role("switch", name="Runtime pod affinity").click()
        expect(page.locator(".diff .a")).to_contain_text("enable")
        expect(page.get_by_text("The runtime plug-in obeys at once")).to_be_visible()
        expect(page.get_by_text("The scheduler restarts once")).to_have_count(0)
