"""What somebody who opens the console for the first time stumbles over: addresses, tables, commands, keys, a lost server."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from browser.test_console import EXAMPLES, FEW, LOG, OUTSIDE, WRITTEN, english, few, opened, wrong
from numaware.schedule.cluster import Member
from numaware.serve.authentication import TokenAuthentication
from numaware.serve.console.api.routes import Console
from numaware.serve.console.app import Access
from numaware.workload.qos import qos_class
from support.console_server import RunningConsole, running
from support.console_world import console

COMMAND = ".cli code"
WHATIF = "numaware whatif live: cpu=8,memory=48Gi,nvidia.com/gpu=1"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningConsole]:
    with running(console) as found:
        yield found


def looks_right(page: Page) -> None:
    """It fits narrow windows, pleases axe in both themes, and speaks Chinese."""
    for width in (800, 360, 1280):
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
    for _ in range(600):
        if not english(page):
            break
        # What the server words is asked for again.
        page.wait_for_timeout(100)
    assert english(page) == []


@pytest.mark.parametrize("width", [800, 1024, 1200, 1280])
def test_every_page_is_in_sight_in_a_window_of_middle_size(
    browser: Browser, server: RunningConsole, width: int
) -> None:
    with opened(browser, server, "/policies", width=width) as page:
        last = page.locator(".nav a").last
        expect(last).to_be_in_viewport(ratio=1)
        assert page.locator(".nav").evaluate("nav => nav.scrollWidth - nav.clientWidth") == 0


# Addresses


def test_an_unknown_address_is_a_page_with_a_way_on(browser: Browser, server: RunningConsole) -> None:
    for path in ("/nowhere", "/nodes/a/b", "/pods/alone"):
        with opened(browser, server, path, refused=404) as page:
            expect(page.get_by_role("heading", name="There is no such page.")).to_be_visible()
            expect(page.get_by_text(path, exact=True)).to_be_visible()
            expect(page.locator(COMMAND)).to_have_count(0)
            if path == "/nowhere":
                looks_right(page)
                continue
            page.get_by_role("link", name="Back to the overview").click()
            expect(page.locator(".tile")).to_have_count(30)


def test_an_unknown_address_of_a_guarded_console_asks_for_the_token(browser: Browser) -> None:
    with running(few, Access("127.0.0.1:0", TokenAuthentication(str(uuid.UUID(int=7))))) as server:
        page = browser.new_page(locale="en-US")
        page.goto(f"{server.url}/nowhere")
        expect(page.get_by_role("heading", name="This console asks for a token")).to_be_visible()
        page.close()


def test_what_was_asked_of_a_manifest_is_an_address(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, "/whatif") as page:
        page.get_by_role("button", name="YAML").click()
        page.get_by_role("textbox").fill((EXAMPLES / "replica.yaml").read_text())
        page.get_by_role("button", name="Ask").click()
        expect(page).to_have_url(re.compile("#yaml="))
        expect(page.get_by_text("The address of this page has all of it")).to_be_visible()
        page.locator(".vitem").first.click()
        expect(page).to_have_url(re.compile(r"node=.*#yaml="))
        address = page.url.removeprefix(server.url)
        answer = page.get_by_text(re.compile(r"\d+/30 nodes are available"))
        # The pod of the manifest wants no GPU: until its answer is there, the one before it is.
        expect(answer).not_to_contain_text("nvidia.com/gpu")
        said = answer.inner_text()
    with opened(browser, server, address) as page:
        expect(page.get_by_text(said)).to_be_visible()
        expect(page.get_by_role("textbox")).to_have_value((EXAMPLES / "replica.yaml").read_text())
        looks_right(page)
        page.get_by_role("button", name="滑块").click()
        expect(page).not_to_have_url(re.compile("#"))


def test_findings_are_an_address_as_long_as_they_fit_in_one(
    browser: Browser, server: RunningConsole, tmp_path: Path
) -> None:
    log = tmp_path / "kubelet.log"
    log.write_text(LOG)
    with opened(browser, server, "/diagnose") as page:
        page.locator("input[type=file]").set_input_files([log])
        expect(page).to_have_url(re.compile("/diagnose#kubelet.log="))
        expect(page.locator(COMMAND)).to_have_text("numaware diagnose kubelet.log")
        address, found = page.url.removeprefix(server.url), page.locator(".finding").all_inner_texts()
        large = tmp_path / "large.log"
        large.write_text(LOG + "\n" * (5 << 20))
        page.locator("input[type=file]").set_input_files([large])
        expect(page.get_by_text("This is too large for an address")).to_be_visible()
        expect(page).not_to_have_url(re.compile("#"))
    with opened(browser, server, address) as page:
        expect(page.locator(".finding")).to_have_count(len(found))
        assert page.locator(".finding").all_inner_texts() == found
        looks_right(page)


def test_an_address_that_carries_nonsense_is_the_empty_page(browser: Browser, server: RunningConsole) -> None:
    for path in ("/diagnose#kubelet.log=!!!", "/whatif#yaml=AAAA", "/diagnose#%E0%A4%A=AAAA"):
        with opened(browser, server, path) as page:
            expect(page.locator("h1")).to_be_visible()
            expect(page.locator(".finding, .errbar")).to_have_count(0)


def test_a_comparison_is_an_address(browser: Browser) -> None:
    with running(few) as server:
        with opened(browser, server, "/simulate") as page:
            page.get_by_role("spinbutton", name="Pods").fill("60")
            page.get_by_role("spinbutton", name="Seed").fill("3")
            page.get_by_role("button", name="Run").click()
            expect(page).to_have_url(re.compile(r"policies=numaware,kube-scheduler&pods=60&seed=3$"))
            expect(page.get_by_text("2 of 2 schedulers done")).to_be_visible()
            address = page.url.removeprefix(server.url)
            page.get_by_role("spinbutton", name="Pods").fill("30")
            page.get_by_role("button", name="Run").click()
            expect(page.get_by_role("heading", name="Comparison 2: 30 pods, seed 3")).to_be_visible()
            expect(page.get_by_text("2 of 2 schedulers done")).to_be_visible()
        with opened(browser, server, address) as page:
            expect(page.get_by_role("heading", name="Comparison 1: 60 pods, seed 3")).to_be_visible()
            expect(page.get_by_role("spinbutton", name="Pods")).to_have_value("60")
            page.get_by_role("button", name="Schedulers").click()
            expect(page.get_by_role("rowheader").first).to_have_text("kube-scheduler")
            looks_right(page)
        with opened(browser, server, address.replace("seed=3", "seed=4")) as page:
            expect(page.get_by_text("This comparison is not kept here (any more)")).to_be_visible()
            page.get_by_role("button", name="Run").click()
            expect(page.get_by_role("heading", name="Comparison 3: 60 pods, seed 4")).to_be_visible()


# Tables


def column(page: Page, place: int) -> list[str]:
    return page.locator(f"tbody td:nth-child({place})").all_inner_texts()


@pytest.mark.parametrize(("path", "head", "place"), [("/nodes", "CPUs free to pin", 6), ("/pods", "CPU", 6)])
def test_a_table_is_sorted_by_the_head_that_is_pressed(
    browser: Browser, server: RunningConsole, path: str, head: str, place: int
) -> None:
    with opened(browser, server, path) as page:
        pressed = page.get_by_role("button", name=head, exact=True)
        over = page.get_by_role("columnheader", name=head, exact=True)
        expect(over).to_have_attribute("aria-sort", "none")
        usual = column(page, 1)
        pressed.click()
        expect(over).to_have_attribute("aria-sort", "ascending")
        numbers = [float(text) for text in column(page, place)]
        assert numbers == sorted(numbers)
        pressed.click()
        expect(over).to_have_attribute("aria-sort", "descending")
        expect(page).to_have_url(re.compile("sort=-cpu"))
        numbers = [float(text) for text in column(page, place)]
        assert numbers == sorted(numbers, reverse=True)
        page.reload()
        expect(over).to_have_attribute("aria-sort", "descending")
        looks_right(page)
        page.locator("th[aria-sort=descending] button").click()
        expect(page).not_to_have_url(re.compile("sort"))
        # Of many rows only those in view are there.
        assert column(page, 1)[:10] == usual[:10]


def _busy_in_both(console: Console) -> str:
    """A node with several pods that own CPUs, and several that share them."""

    def fewer(member: Member) -> int:
        sharing = sum(qos_class(pod) != "Guaranteed" for pod in member.pods.values())
        return min(sharing, len(member.pods) - sharing)

    return max(console.world.cluster, key=fewer).name


@pytest.mark.parametrize(
    ("path", "section", "head", "place", "order"),
    [
        ("/nodes/{name}", "Pinned pods", "CPU", 2, "sort"),
        ("/nodes/{name}", "Shared pool", "CPU", 3, "shared"),
        ("/nodes/{name}?view=text", "Machine", "GiB", 4, "text"),
        ("/policies", "Kubelet policy per pool", "Nodes", 2, "sort"),
        ("/overview", "", "CPU", 2, "sort"),
    ],
)
def test_tables_in_rails_are_sorted_by_their_heads_too(
    browser: Browser, server: RunningConsole, path: str, section: str, head: str, place: int, order: str
) -> None:
    name = server.do(_busy_in_both)
    with opened(browser, server, path.format(name=name)) as page:
        if path == "/overview":
            page.locator(".tile").first.hover()
        panel = page.locator("section.panel", has=page.get_by_role("heading", name=section))
        table = panel.locator("table").first
        pressed = table.get_by_role("button", name=head, exact=True)
        pressed.click()
        pressed.click()
        expect(page).to_have_url(re.compile(f"{order}=-"))
        expect(table.locator("th[aria-sort=descending]")).to_have_count(1)
        cells = table.locator(f"tbody tr > :nth-child({place})").all_inner_texts()
        numbers = [float(re.split(r"[ /]", text)[0]) if text != "\u2013" else 0.0 for text in cells]
        assert len(numbers) > 1
        assert numbers == sorted(numbers, reverse=True)
        assert wrong(page) == []


def test_pods_are_filtered_by_their_node(browser: Browser, server: RunningConsole) -> None:
    pods = server.do(lambda found: len(found.world.cluster.by_name["gpu-1"].pods))
    with opened(browser, server, "/nodes/gpu-1") as page:
        page.get_by_role("main").get_by_role("link", name="Pods", exact=True).click()
        expect(page).to_have_url(re.compile(r"/pods\?q=node:gpu-1$"))
        expect(page.locator("tbody tr")).to_have_count(pods)
        assert set(column(page, 2)) == {"gpu-1"}
        expect(page.locator(COMMAND)).to_have_text("numaware pods --node gpu-1")
        page.get_by_role("searchbox").fill("node:gpu-1 -data/")
        expect(page.locator("tbody tr").filter(has_text="data/")).to_have_count(0)
        # Not a part of its name, unlike free text.
        page.get_by_role("searchbox").fill("node:gpu")
        expect(page.get_by_text("No pod matches")).to_be_visible()


# Commands and keys


def test_the_bar_shows_the_command_of_numaware_and_the_call_beside_it(
    browser: Browser, server: RunningConsole
) -> None:
    for path, line in (
        ("/overview", "numaware nodes"),
        ("/nodes/gpu-1", "numaware nodes gpu-1"),
        ("/pods", "numaware pods"),
        (
            "/whatif?shape=cpu:8,mem:48Gi,gpu:1&policy=restricted&scope=pod&node=gpu-1",
            f"{WHATIF} --kubelet-policy restricted --scope pod --explain gpu-1",
        ),
    ):
        with opened(browser, server, path) as page:
            expect(page.locator(COMMAND)).to_have_text(line)
            expect(page.locator(".cli")).to_contain_text("On a cluster, in the terminal")
            call = page.get_by_role("button", name="Copy as curl")
            expect(call).to_have_attribute("title", re.compile(rf"^curl -s .*'{server.url}/api/v1/"))


def test_the_bar_says_where_a_command_tells_the_very_same_and_where_only_what_comes_nearest(
    browser: Browser, server: RunningConsole
) -> None:
    """The lab's machines and pods are in every installation; a past, and a change that is not made yet, are not."""
    for path, line, told in (
        ("/diagnose", "journalctl -u kubelet | numaware diagnose", "Same in the terminal"),
        (
            "/simulate?policies=numaware,kai&pods=40&seed=3",
            "numaware simulate lab: lab:40 --policy numaware --policy kai --seed 3",
            "Same in the terminal",
        ),
        ("/monitoring?node=gpu-1", "numaware nodes gpu-1", "Nearest in the terminal"),
        ("/policies", "numaware doctor --cluster", "Nearest in the terminal"),
    ):
        with opened(browser, server, path) as page:
            expect(page.locator(COMMAND)).to_have_text(line)
            expect(page.locator(".cli")).to_contain_text(told)


def test_nothing_that_writes_is_offered_before_a_change_is_pending(browser: Browser) -> None:
    with running(few) as server, opened(browser, server, "/policies") as page:
        line = page.locator(COMMAND)
        expect(line).to_have_text("numaware doctor --cluster")
        page.get_by_role("switch", name="Cluster NUMA affinity").click()
        expect(line).to_have_text(f"curl -s -X PUT '{server.url}/rest/scheduling/v1/numaaware?status=close'")
        page.get_by_role("button", name="Cancel").click()
        expect(line).not_to_contain_text("PUT")


def test_w_asks_about_what_the_pointer_is_on(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, "/overview?group=none") as page:
        page.locator(".tile[data-name='box-3']").hover()
        page.keyboard.press("w")
        expect(page).to_have_url(re.compile(r"/whatif\?node=box-3&"))
        page.keyboard.press("g")
        page.keyboard.press("n")
        page.locator("tbody tr", has_text="epyc-2").hover()
        page.keyboard.press("w")
        expect(page).to_have_url(re.compile(r"/whatif\?node=epyc-2&"))
        page.goto(f"{server.url}/nodes/gpu-1")
        expect(page.locator(".zone")).to_have_count(2)
        page.keyboard.press("w")
        expect(page).to_have_url(re.compile(r"/whatif\?node=gpu-1"))


# A lost server


def test_the_rail_and_the_tiles_go_stale_with_the_connection(browser: Browser) -> None:
    with running(few) as server:
        page = browser.new_page(locale="en-US")
        page.clock.install()
        page.goto(f"{server.url}/overview")
        expect(page.locator(".tile")).to_have_count(FEW)
        rail = page.locator("aside .panel").first
        expect(rail.locator(".prov.old")).to_have_count(0)
    page.clock.run_for(1500)
    expect(page.get_by_role("alert")).to_contain_text("Connection lost")
    expect(rail).to_contain_text("last known")
    expect(rail.locator(".prov.old")).to_have_count(1)
    expect(page.locator(".tile.stale")).to_have_count(0)
    page.clock.run_for(40_000)
    expect(page.locator(".tile.stale")).to_have_count(FEW)
    assert wrong(page) == []
    page.close()
