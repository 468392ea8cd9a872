"""The report as a reader sees it: in a real browser, from a file, on a desk and on a phone, in light and in dark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page

from numaware.simulate.report import render
from support.made_results import OUTCOMES, everything, result

LONG = "a-policy-with-a-name-of-sixty-three-characters-which-is-the-most"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    results = everything(3) + [result(LONG, seed) for seed in (1, 2, 3)]
    path.write_bytes(
        render(results, title="A comparison", cluster="gpu-pool", trace="t" * 200, settings={"scope": "pod"})
    )
    return path


@contextmanager
def opened(
    browser: Browser,
    file: Path,
    *,
    width: int = 1280,
    theme: Literal["light", "dark"] = "light",
    script: bool = True,
) -> Iterator[Page]:
    """The page, which must neither complain nor ask for anything else."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, java_script_enabled=script
    )
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    yield page
    assert said == []
    assert asked == [file.as_uri()]
    context.close()


def colour(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


LIGHT, DARK = "rgb(244, 246, 248)", "rgb(14, 19, 25)"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 480, 800, 1280, 2560])
def test_the_page_fits_its_window(
    browser: Browser, file: Path, width: int, theme: Literal["light", "dark"]
) -> None:
    with opened(browser, file, width=width, theme=theme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert colour(page) == (LIGHT if theme == "light" else DARK)


@pytest.mark.parametrize(("width", "shown"), [(1280, "wide"), (480, "narrow")])
def test_a_window_gets_the_plots_drawn_for_it(browser: Browser, file: Path, width: int, shown: str) -> None:
    with opened(browser, file, width=width) as page:
        assert page.locator("svg.plot.wide:visible").count() == (4 if shown == "wide" else 0)
        assert page.locator("svg.plot.narrow:visible").count() == (4 if shown == "narrow" else 0)


@pytest.mark.parametrize("width", [360, 480, 1280])
def test_text_in_plots_is_large_enough_stays_inside_and_does_not_overlap(
    browser: Browser, file: Path, width: int
) -> None:
    """As the reader's fonts really draw it, not as we estimated."""
    look = """() => [...document.querySelectorAll("svg.plot")].filter(svg => svg.getBoundingClientRect().width).map(svg => {
      const box = svg.getBoundingClientRect();
      const texts = [...svg.querySelectorAll("text")].map(text => {
        const r = text.getBoundingClientRect();
        return {text: text.textContent, left: r.left - box.left, right: r.right - box.right, top: r.top, bottom: r.bottom,
                high: parseFloat(getComputedStyle(text).fontSize) * box.width / svg.viewBox.baseVal.width};
      });
      const over = [];
      texts.forEach((a, i) => texts.slice(i + 1).forEach(b => {
        const across = Math.min(a.right, b.right) + box.right - box.left - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (across > 1 && down > 4) over.push([a.text, b.text]);
      }));
      return {out: texts.filter(t => t.left < -1 || t.right > 1).map(t => t.text), over,
              small: texts.filter(t => t.high < 9).map(t => t.text)};
    })"""
    with opened(browser, file, width=width) as page:
        plots = page.evaluate(look)
        assert len(plots) == 4 + len(OUTCOMES) + 1
        assert [plot for plot in plots if plot["out"] or plot["over"] or plot["small"]] == []


def test_the_button_turns_light_into_dark_and_back(browser: Browser, file: Path) -> None:
    with opened(browser, file) as page:
        button = page.get_by_role("button", name="Dark")
        button.click()
        assert colour(page) == DARK
        page.get_by_role("button", name="Light").click()
        assert colour(page) == LIGHT


def test_without_scripts_everything_but_the_button_is_there(browser: Browser, file: Path) -> None:
    with opened(browser, file, script=False, theme="dark") as page:
        assert not page.locator("#theme").is_visible()
        assert page.get_by_text("numaware: 0 kubelet refusals").is_visible()
        assert page.locator("svg.plot.wide:visible").count() == 4


def test_one_policy_can_be_picked_out_by_keyboard_and_without_scripts(browser: Browser, file: Path) -> None:
    def strength(page: Page, place: int) -> float:
        found = page.locator(f"svg.wide g.p{place}").first
        return float(found.evaluate("element => getComputedStyle(element).opacity"))

    with opened(browser, file) as page:
        page.get_by_role("radio", name="all", exact=True).focus()
        assert strength(page, 1) == 1
        page.keyboard.press("ArrowRight")
        assert page.get_by_role("radio", name="numaware", exact=True).is_checked()
        assert strength(page, 0) == 1
        assert strength(page, 1) < 0.5
    with opened(browser, file, script=False) as page:
        page.get_by_role("radio", name="fgd", exact=True).check()
        assert strength(page, 0) < 0.5


def test_tables_behind_plots_open_by_keyboard(browser: Browser, file: Path) -> None:
    with opened(browser, file) as page:
        table = page.get_by_role("region", name="GPU allocated, as a table")
        assert not table.is_visible()
        page.locator("summary").first.focus()
        page.keyboard.press("Enter")
        assert table.is_visible()
        assert table.get_by_role("columnheader", name="kube-scheduler").is_visible()


def test_those_who_listen_meet_each_plot_once_with_its_numbers(browser: Browser, file: Path) -> None:
    with opened(browser, file) as page:
        for name in ("GPU allocated", "GPU stranded", "Refused by kubelets", "Pinned pods that are aligned"):
            assert page.get_by_role("img", name=name).count() == 1
        row = page.get_by_role("table").first.get_by_role("row", name="numaware").first
        assert "best" in row.inner_text()
        assert page.get_by_role("heading", level=1).inner_text() == "A comparison"


def test_paper_is_light_holds_the_whole_table_and_shows_no_controls(browser: Browser, file: Path) -> None:
    # As wide as a sheet of A4 with its margins.
    with opened(browser, file, theme="dark", width=718) as page:
        page.emulate_media(media="print", color_scheme="dark")
        ink = page.evaluate("getComputedStyle(document.body).color")
        assert ink == "rgb(22, 32, 43)"
        assert page.evaluate("document.documentElement.scrollWidth") <= 718
        assert not page.locator("#theme").is_visible()
        assert not page.locator(".pick").is_visible()
        assert page.pdf(format="A4").startswith(b"%PDF")
