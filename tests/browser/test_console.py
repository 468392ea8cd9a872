"""The console as people use it: a real browser, every page, both languages, light and dark, phone to wall screen."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from numaware.serve.authentication import TokenAuthentication
from numaware.serve.console.api.routes import Console
from numaware.serve.console.app import Access
from numaware.serve.console.lab.world import LabWorld, lab_cluster
from numaware.twin.topology.hints import Hint
from support.console_server import RunningConsole, running
from support.console_world import console
from support.kubelet_logs import ERAS, Story, written

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PAGES = {
    "overview": "/overview",
    "nodes": "/nodes",
    "node": "/nodes/gpu-1",
    "node-8-numa": "/nodes/epyc-0",
    "pods": "/pods",
    "whatif": "/whatif?node=epyc-0&shape=cpu:14,mem:40Gi,gpu:0",
    "monitoring": "/monitoring?node=gpu-1",
    "policies": "/policies",
    "traffic": "/traffic",
    "diagnose": "/diagnose",
    "simulate": "/simulate",
}
FEW = 4
MARKUP = "<b>not bold</b>"
LOG = "\n".join(
    written(
        ERAS[-1],
        Story(
            hints={"cpu": [Hint(2, preferred=True)], "memory": [Hint(1, preferred=True)]},
            merged=Hint(None, preferred=False),
            reason="TopologyAffinityError",
            message=f"Resources cannot be allocated with Topology locality {MARKUP}",
        ),
    )
)


@pytest.fixture(scope="module")
def server() -> Iterator[RunningConsole]:
    with running(console) as found:
        yield found


def few() -> Console:
    """A small lab, for tests that change it."""
    return console(nodes=FEW)


@contextmanager
def opened(
    browser: Browser,
    server: RunningConsole,
    path: str,
    *,
    width: int = 1280,
    theme: Literal["light", "dark"] = "light",
    language: Literal["en", "zh"] = "en",
    refused: int = 0,
) -> Iterator[Page]:
    """The page, which must neither complain nor ask anybody else for anything; a browser tells of `refused` calls."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=theme,
        locale="zh-CN" if language == "zh" else "en-US",
        reduced_motion="reduce",
    )
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    strange: list[str] = []
    page.on("request", lambda asked: None if asked.url.startswith(server.url) else strange.append(asked.url))
    page.goto(server.url + path)
    expect(page.locator(".live.off")).to_have_count(0)
    expect(page.locator(".bone")).to_have_count(0)
    yield page
    assert [text for text in said if not (refused and f"status of {refused}" in text)] == []
    assert strange == []
    context.close()


def pod_path(server: RunningConsole) -> str:
    def find(found: Any) -> str:
        member = found.world.cluster.by_name["gpu-1"]
        pod = next(pod for pod in member.pods.values() if pod.uid in member.node.state.cpu.owned)
        return f"/pods/{pod.namespace}/{pod.name}"

    return server.do(find)


def paths(server: RunningConsole) -> dict[str, str]:
    return {**PAGES, "pod": pod_path(server)}


# Looks


OUTSIDE = """() => [...document.querySelectorAll("main *")].filter(element => {
  if (element.closest(".scroll:not(:has(.rows)), .seg, .nav, .diff, .sr, .wall, svg")) return false;
  return element.getBoundingClientRect().right > innerWidth + 1;
}).map(element => element.tagName + "." + element.className).slice(0, 5)"""


# Nobody knows what a reader's machine has: wide families, letters that are all as wide as an m, and wider than either.
FONTS = (
    "",
    "* { font-family: 'DejaVu Sans', Verdana, sans-serif !important }",
    "* { font-family: 'DejaVu Sans Mono', monospace !important }",
    "* { letter-spacing: .1em !important }",
)
# Written in the given fonts, laid out and drawn.
WRITTEN = """async style => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(style);
  document.adoptedStyleSheets = [sheet];
  for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
}"""


# Text on the screen and in names, outside of what is never translated.
TEXTS = """() => { const found = []; const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) { const parent = walk.currentNode.parentElement;
    if (!parent.closest('[lang=en], .mono, code, script, textarea, noscript')) found.push(walk.currentNode.data.trim()); }
  for (const element of document.querySelectorAll("[aria-label], [placeholder]")) {
    if (!element.closest("[lang=en], textarea")) found.push(element.getAttribute("aria-label") ?? element.placeholder); }
  return found.filter(Boolean); }"""


def wrong(page: Page) -> list[tuple[str, str, str]]:
    """What axe finds."""
    return [
        (one["id"], one["nodes"][0]["html"][:200], one["nodes"][0]["failureSummary"])
        for one in Axe().run(page).response["violations"]
    ]


def english(page: Page) -> list[str]:
    """Sentences that are not translated."""
    return [text for text in page.evaluate(TEXTS) if re.search(r"[A-Za-z]{3,} [a-z]{2,} [a-z]{2,}", text)]


@pytest.mark.parametrize("name", [*PAGES, "pod"])
def test_a_page_fits_every_window_pleases_axe_and_speaks_chinese(
    browser: Browser, server: RunningConsole, name: str
) -> None:
    with opened(browser, server, paths(server)[name], width=2560) as page:
        for width in (2560, 800, 360, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            for fonts in reversed(FONTS):
                page.evaluate(WRITTEN, fonts)
                assert (width, fonts, page.evaluate(OUTSIDE)) == (width, fonts, [])
                assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert wrong(page) == []
        page.get_by_role("button", name="Dark", exact=True).click()
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        assert wrong(page) == []
        page.get_by_role("button", name="中文").click()
        expect(page.locator("html")).to_have_attribute("lang", "zh")
        assert any(re.search(r"[一-鿿]", text) for text in page.evaluate(TEXTS))
        for _ in range(600):
            if not english(page):
                break
            # What the server words is asked for again.
            page.wait_for_timeout(100)
        assert english(page) == []


def test_language_and_theme_are_switched_and_stay(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, "/overview") as page:
        page.get_by_role("button", name="中文").click()
        expect(page.get_by_role("link", name="总览")).to_be_visible()
        page.get_by_role("button", name="深色").click()
        assert page.locator("html").get_attribute("data-theme") == "dark"
        page.reload()
        expect(page.get_by_role("button", name="浅色")).to_be_visible()


# Overview


def test_the_wall_answers_for_the_chosen_shape(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, "/overview") as page:
        expect(page.locator(".tile")).to_have_count(30)
        page.get_by_role("button", name="database").click()
        expect(page).to_have_url(re.compile(r"shape=cpu:10,mem:120Gi,gpu:0"))
        verdicts = server.do(lambda found: _verdicts(found, "10", "120Gi", 0))
        for verdict, number in verdicts.items():
            expect(page.locator(f".tile.{verdict}")).to_have_count(number)
        tally = page.get_by_role("group", name="Verdicts of all nodes").inner_text()
        assert f"{verdicts['aligned']} aligned" in " ".join(tally.split())


def _verdicts(found: Any, cpu: str, memory: str, gpu: int) -> dict[str, int]:
    from numaware.serve.console.views.pod_shape import Shape  # noqa: PLC0415 - on the console's own thread

    verdicts: dict[str, int] = found.wall_model.numbers(Shape(cpu, memory, gpu)).verdicts
    return verdicts


def test_the_filter_knows_words_fields_and_their_opposite(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, "/overview") as page:
        search = page.get_by_role("searchbox", name="Filter")
        for words, count in (
            ("pool:gpu", 8),
            ("policy:restricted", 12),
            ("numa:8", 4),
            ("gpu -pool:gpub", 8),
            ("zzz", 0),
        ):
            search.fill(words)
            expect(page.locator(".tile")).to_have_count(count)
        expect(page.get_by_text("No node matches")).to_be_visible()
        page.get_by_role("button", name="Clear the filter").click()
        expect(page.locator(".tile")).to_have_count(30)


def test_a_view_can_be_sent_as_a_link(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, "/overview?shape=cpu:4,mem:8Gi,gpu:0&group=pool&q=pool:box") as page:
        expect(page.locator(".tile")).to_have_count(8)
        expect(page.get_by_role("button", name="by pool")).to_have_attribute("aria-pressed", "true")
        expect(page.get_by_role("button", name="web", exact=True)).to_have_attribute("aria-pressed", "true")
        expect(page.get_by_role("heading", name="pool box")).to_be_visible()


def test_the_wall_is_walked_by_keyboard(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, "/overview?group=none") as page:
        page.locator(".tile[tabindex='0']").focus()
        first = page.evaluate("document.activeElement.dataset.name")
        page.keyboard.press("ArrowRight")
        second = page.evaluate("document.activeElement.dataset.name")
        page.keyboard.press("ArrowDown")
        third = page.evaluate("document.activeElement.dataset.name")
        assert len({first, second, third}) == 3
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1, name=third, exact=True)).to_be_visible()
        page.go_back()
        page.locator(f".tile[data-name='{third}']").focus()
        page.keyboard.press("w")
        expect(page).to_have_url(re.compile(rf"/whatif\?node={third}"))


def test_keys_open_pages_the_filter_and_their_own_list(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, "/overview") as page:
        page.keyboard.press("/")
        expect(page.get_by_role("searchbox", name="Filter")).to_be_focused()
        page.keyboard.type("g n")
        expect(page).to_have_url(re.compile("/overview"))
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("g")
        page.keyboard.press("m")
        expect(page).to_have_url(re.compile("/monitoring"))


def test_tiles_say_in_words_what_they_show(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, "/overview?q=gpu-0") as page:
        name = page.locator(".tile").get_attribute("aria-label") or ""
        assert re.match(
            r"gpu-0: (aligned|split|refused|full|never fits)\. NUMA 0: \d+ of 64 CPUs free to pin", name
        )


def test_a_change_shows_without_reloading(browser: Browser) -> None:
    with running(console) as server, opened(browser, server, "/overview?group=none") as page:
        expect(page.locator(".tile")).to_have_count(30)
        page.mouse.move(5, 5)
        before = page.locator(".tile .s-exc").evaluate_all(
            "all => all.map(one => one.getAttribute('d')).join()"
        )
        server.advance(240_000)
        page.wait_for_function(
            "before => [...document.querySelectorAll('.tile .s-exc')].map(one => one.getAttribute('d')).join() !== before",
            arg=before,
        )


def test_a_lost_server_is_told_with_the_age_of_what_is_shown(browser: Browser) -> None:
    with running(few) as server:
        context = browser.new_context()
        page = context.new_page()
        page.goto(server.url + "/overview")
        expect(page.locator(".tile")).to_have_count(FEW)
    expect(page.get_by_role("alert")).to_contain_text("Connection lost")
    expect(page.locator(".tile")).to_have_count(FEW)
    context.close()


# Node and pod


def test_the_machine_is_drawn_whole_and_lights_up_by_pod(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, "/nodes/gpu-1") as page:
        expect(page.locator(".zone")).to_have_count(2)
        cells = page.locator(".zone .cellno").count()
        assert cells >= 128
        row = page.locator("aside table").first.locator("tbody tr").first
        row.hover()
        letter = row.locator(".key").inner_text()
        lit = page.locator(".zone .hold.on .let")
        expect(lit.first).to_contain_text(letter)
        owned = server.do(lambda found: _owned(found, "gpu-1"))
        assert page.locator(".zone .hold.on .cellno").count() >= owned[row.get_by_role("link").inner_text()]


def _owned(found: Any, name: str) -> dict[str, int]:
    node = found.world.cluster.by_name[name].node
    return {
        f"{node.state.pods[uid].namespace}/{node.state.pods[uid].name}": sum(
            cpus.bit_count() for cpus in held.values()
        )
        for uid, held in node.state.cpu.owned.items()
    }


def test_the_text_of_a_machine_holds_every_cpu(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, "/nodes/box-0") as page:
        page.get_by_role("button", name="text", exact=True).click()
        expect(page).to_have_url(re.compile("view=text"))
        lists = page.locator("main table").first.locator("tbody td:nth-child(3)").all_inner_texts()
        numbers = [number for text in lists for number in _numbers(text)]
        assert sorted(numbers) == list(range(32))


def _numbers(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        if re.fullmatch(r"\d+(-\d+)?", part):
            first, _, last = part.partition("-")
            found += range(int(first), int(last or first) + 1)
    return found


def test_distances_are_those_of_the_machine(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, "/nodes/epyc-0") as page:
        cells = page.locator(".matrix tbody td").all_inner_texts()
        cache = server.do(
            lambda found: [
                list(numa.distances)
                for numa in found.world.cluster.by_name["epyc-0"].node.kubelet.hardware.numa
            ]
        )
        assert cells == [str(number) for row in cache for number in row]


def test_a_pod_is_pinned_by_link_and_let_go_by_escape(browser: Browser, server: RunningConsole) -> None:
    pod = pod_path(server).removeprefix("/pods/")
    with opened(browser, server, f"/nodes/gpu-1?pod={pod}") as page:
        expect(page.locator("section.linked")).to_have_count(1)
        page.keyboard.press("Escape")
        expect(page.locator("section.linked")).to_have_count(0)


def test_a_pod_tells_where_it_is_and_what_every_node_would_say(
    browser: Browser, server: RunningConsole
) -> None:
    with opened(browser, server, pod_path(server)) as page:
        expect(
            page.get_by_text("as predicted", exact=True).or_(page.get_by_text("not predicted"))
        ).to_be_visible()
        expect(page.locator(".vitem[aria-pressed=true]")).to_contain_text("gpu-1")
        expect(page.get_by_role("heading", name=re.compile("gpu-1 · aligned"))).to_be_visible()
        expect(page.get_by_text("Nobody measures it here")).to_be_visible()
        for heading in ("When it was placed", "If it came now"):
            expect(page.get_by_role("heading", name=heading, exact=True)).to_be_visible()
        expect(page.get_by_text("without this pod; not what led to its place")).to_be_visible()


def test_what_is_not_there_says_so(browser: Browser, server: RunningConsole) -> None:
    for path, text in (
        ("/nodes/nowhere", "There is no node of that name."),
        ("/pods/no/body", "This pod is not there (any more)."),
    ):
        context = browser.new_context(locale="en-US")
        page = context.new_page()
        page.goto(server.url + path)
        expect(page.get_by_text(text)).to_be_visible()
        context.close()


# What-if


def test_sliders_ask_every_node_and_the_answer_is_the_kubelets(
    browser: Browser, server: RunningConsole
) -> None:
    with opened(browser, server, "/whatif?shape=cpu:14,mem:40Gi,gpu:0") as page:
        expect(page.get_by_text(re.compile(r"\d+/30 nodes are available"))).to_be_visible()
        page.get_by_role("spinbutton", name="CPU").fill("4")
        expect(page).to_have_url(re.compile("cpu:4,"))
        expect(page.locator(".banner")).to_be_visible()
        refusing = page.locator(".vitem", has_text="box-0")
        page.get_by_role("searchbox", name="Filter").fill("box-0")
        refusing.click()
        expect(page).to_have_url(re.compile("node=box-0"))
        expect(page.get_by_role("heading", name=re.compile("box-0 · "))).to_be_visible()
        expect(page.get_by_role("table").first.get_by_role("columnheader", name="NUMA {0}")).to_be_visible()


def test_a_change_that_helps_can_be_tried(browser: Browser, server: RunningConsole) -> None:
    answers = server.do(_refusing)
    if not answers:
        pytest.fail("the lab has no node that refuses this shape")
    with opened(browser, server, f"/whatif?node={answers[0]}&shape=cpu:14,mem:40Gi,gpu:0") as page:
        expect(page.locator(".banner.refused")).to_be_visible()
        page.get_by_role("button", name="Try").first.click()
        expect(page.locator(".banner.aligned, .banner.split")).to_be_visible()


def _refusing(found: Any) -> list[str]:
    from numaware.serve.console.views.pod_shape import Shape, pod_of  # noqa: PLC0415 - on the console's own thread

    pod = pod_of(Shape("14", "40Gi", 0))
    judged = zip(found.world.cluster, found.wall_model.judge.judge(pod), strict=True)
    return [member.name for member, one in judged if one.verdict == "refused"]


def test_a_manifest_can_be_pasted(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, "/whatif", refused=422) as page:
        page.get_by_role("button", name="YAML").click()
        page.get_by_role("textbox").fill((EXAMPLES / "replica.yaml").read_text())
        page.get_by_role("button", name="Ask").click()
        expect(page.get_by_text(re.compile(r"\d+/30 nodes are available"))).to_be_visible()
        page.get_by_role("textbox").fill("kind: ConfigMap")
        page.get_by_role("button", name="Ask").click()
        expect(page.get_by_role("alert")).to_contain_text("no pod")


def test_other_policies_are_tried_from_the_form(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, "/whatif?node=box-0&policy=none&shape=cpu:1,mem:1Gi,gpu:0") as page:
        expect(page.get_by_text("Policy none asks for no hints")).to_be_visible()


# Monitoring, policies, diagnose, simulate


def test_charts_show_the_storm_and_say_their_numbers(browser: Browser, server: RunningConsole) -> None:
    with opened(browser, server, "/monitoring?node=gpu-1") as page:
        chart = page.get_by_role("img", name=re.compile(r"CPU in use, CPUs of 64\. NUMA 0: last \d+"))
        expect(chart).to_be_visible()
        assert page.locator(".chart .bar").count() > 0
        page.get_by_role("group", name="Range").get_by_role("button", name="15 min").click()
        expect(page).to_have_url(re.compile("range=15m"))
        expect(page.locator(".chart .bar")).to_have_count(0)
        page.locator("summary").first.click()
        expect(page.get_by_role("columnheader", name="NUMA 1")).to_be_visible()
        expect(page.get_by_text("Three checks:").first).to_be_visible()


def test_a_switch_shows_its_diff_asks_and_can_be_undone(browser: Browser) -> None:
    with running(few) as server, opened(browser, server, "/policies") as page:
        switch = page.get_by_role("switch", name="Cluster NUMA affinity")
        expect(switch).to_have_attribute("aria-checked", "true")
        switch.click()
        expect(page.locator(".diff .d")).to_have_count(1)
        assert server.do(lambda found: found.world.switches[0].status) == "open"
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator(".diff")).to_have_count(0)
        switch.click()
        page.get_by_role("button", name="Apply").click()
        expect(page.get_by_role("status").filter(has_text="Applied")).to_be_visible()
        expect(switch).to_have_attribute("aria-checked", "false")
        assert server.do(lambda found: found.world.switches[0].status) == "close"
        page.get_by_role("button", name="Undo").click()
        expect(page.locator(".diff .a")).to_have_count(1)
        page.get_by_role("button", name="Apply").click()
        expect(switch).to_have_attribute("aria-checked", "true")
        expect(page.get_by_text("not installed")).to_have_count(0)


def test_kubelets_restart_only_for_who_has_typed_a_name_and_are_rolled_back(browser: Browser) -> None:
    with running(few) as server, opened(browser, server, "/policies") as page:
        page.get_by_role("switch", name="NUMA distance").click()
        apply = page.get_by_role("button", name="Apply", exact=True)
        expect(page.get_by_text("4 nodes in all.")).to_be_visible()
        expect(apply).to_be_disabled()
        page.get_by_label("Type lab to confirm").fill("la")
        expect(apply).to_be_disabled()
        page.get_by_label("Type lab to confirm").fill("lab")
        apply.click()
        expect(page.get_by_text("Switching kubelets: 0 of 4 nodes done")).to_be_visible()
        for _ in range(4):
            server.advance(1000)
        expect(page.get_by_role("status").filter(has_text="Applied: NUMA distance is on.")).to_be_visible()
        expect(page.get_by_text("4 of 4 done")).to_be_visible()

        # Another policy for a pool, seen before it is ordered.
        page.get_by_role("button", name="Try another gpu").click()
        page.get_by_label("policy").select_option("best-effort")
        page.get_by_role("button", name="Try it").click()
        expect(page.locator(".diff .a")).to_have_text("+ topologyManagerPolicy: best-effort")
        expect(page.get_by_role("columnheader", name="aligned now")).to_be_visible()
        page.get_by_label("evict pods first (drain)").check()
        page.get_by_label("Type gpu to confirm").fill("gpu")
        page.get_by_role("button", name="Order", exact=True).click()
        expect(page.get_by_role("status").filter(has_text="Ordered for gpu")).to_be_visible()
        page.get_by_role("button", name="Pause pool-gpu").click()
        page.locator(".confirm").get_by_role("button", name="Pause").click()
        server.advance(9000)
        expect(page.get_by_text("1 of 4 done")).to_be_visible()
        page.get_by_role("button", name="Roll back pool-gpu").click()
        back = page.locator(".confirm").get_by_role("button", name="Roll back")
        expect(back).to_be_disabled()
        page.get_by_label("Type pool-gpu to confirm").fill("pool-gpu")
        back.click()
        server.advance(9000)
        page.get_by_text("4 nodes", exact=True).last.click()
        expect(page.get_by_role("cell", name="rolled back")).to_have_count(1)
        assert server.do(lambda found: {one.facts.topology_policy for one in found.world.cluster}) == {
            "single-numa-node"
        }


def test_another_kubelet_policy_is_tried_on_a_pool_in_thought(
    browser: Browser, server: RunningConsole
) -> None:
    with opened(browser, server, "/policies") as page:
        page.get_by_role("button", name="Try another p100").click()
        page.get_by_label("policy").select_option("single-numa-node")
        page.get_by_role("button", name="Try it").click()
        expect(page.get_by_text(re.compile("would (not )?be admitted again"))).to_be_visible()
        policies = server.do(lambda found: {member.facts.topology_policy for member in found.world.cluster})
        assert "best-effort" in policies


def test_a_dropped_log_is_diagnosed_and_its_text_stays_text(
    browser: Browser, server: RunningConsole, tmp_path: Path
) -> None:
    log = tmp_path / "kubelet.log"
    log.write_text(LOG)
    with opened(browser, server, "/diagnose") as page:
        page.locator("input[type=file]").set_input_files([log])
        expect(page.get_by_role("heading", name=re.compile(r"\d+ findings?"))).to_be_visible()
        expect(page.locator(".finding").first).to_contain_text("TopologyAffinityError")
        page.locator(".finding summary").first.click()
        expect(page.locator(".finding pre", has_text=MARKUP)).to_have_count(1)
        expect(page.locator(".finding pre b")).to_have_count(0)


def test_several_files_are_diagnosed_together(
    browser: Browser, server: RunningConsole, tmp_path: Path
) -> None:
    one, other = tmp_path / "kubelet.log", tmp_path / "pod.yaml"
    one.write_text(LOG)
    other.write_text((EXAMPLES / "replica.yaml").read_text())
    with opened(browser, server, "/diagnose") as page:
        page.locator("input[type=file]").set_input_files([one, other])
        expect(page.locator(".panel .chip", has_text="kubelet.log")).to_be_visible()
        expect(page.locator(".panel .chip", has_text="pod.yaml")).to_be_visible()


def test_schedulers_are_compared(browser: Browser) -> None:
    with running(few) as server, opened(browser, server, "/simulate") as page:
        expect(page.get_by_text("No comparison has run yet")).to_be_visible()
        page.get_by_role("spinbutton", name="Pods").fill("60")
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_text("2 of 2 schedulers done")).to_be_visible()
        expect(page.get_by_role("rowheader", name="kube-scheduler")).to_be_visible()
        expect(page.get_by_role("img", name=re.compile("Refusals so far"))).to_be_visible()


def test_names_of_nodes_and_pods_stay_text(browser: Browser) -> None:
    """Whoever may name a node must not be able to write into the page."""
    name = "<img src=x onerror=document.title=1>"

    def make() -> Console:
        spec = lab_cluster()
        world = LabWorld(
            0, spec=msgspec.structs.replace(spec, nodes=(msgspec.structs.replace(spec.nodes[0], name=name),))
        )
        world.advance(60_000)
        return Console(world, lambda: world.now)

    with running(make) as server, opened(browser, server, "/overview") as page:
        expect(page.locator(".tile b")).to_have_text(name)
        page.locator(".tile").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        expect(page.locator("main img")).to_have_count(0)
        assert page.title() != "1"


# Who may look


def test_a_guarded_console_asks_for_what_it_is_guarded_with(browser: Browser) -> None:
    secret = str(uuid.UUID(int=7))
    with running(few, Access("127.0.0.1:0", TokenAuthentication(secret))) as server:
        context = browser.new_context(locale="en-US")
        page = context.new_page()
        page.goto(server.url + "/overview")
        page.get_by_label("Token").fill("wrong-horse-battery-staple")
        page.get_by_role("button", name="Use it").click()
        expect(page.get_by_role("heading", name="This console asks for a token")).to_be_visible()
        page.get_by_label("Token").fill(secret)
        page.get_by_role("button", name="Use it").click()
        expect(page.locator(".tile")).to_have_count(FEW)
        context.close()
