"""The report of a diagnosis as whoever gets the ticket sees it: in a real browser, on a desk and on a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from numaware.diagnose.render.html import render
from numaware.diagnose.rules.diagnosis import findings
from numaware.twin.topology.hints import Hint
from support.diagnosed import bundled
from support.kubelet_logs import ERAS, Story, journald, noisy, written


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with an error, a warning and something that is fine, and with names as long as they get."""
    refused = Story(
        name="x" * 200,
        hints={"cpu": [Hint(2, preferred=True)], "memory": [Hint(1, preferred=True)]},
        merged=Hint(None, preferred=False),
        reason="TopologyAffinityError",
        message="Resources cannot be allocated with Topology locality",
    )
    wide = Story(
        name="wide-0", uid="u2", hints={"cpu": [Hint(3, preferred=False)]}, merged=Hint(3, preferred=False)
    )
    wide.admitted = True
    good = Story(
        name="good-0", uid="u3", hints={"cpu": [Hint(1, preferred=True)]}, merged=Hint(1, preferred=True)
    )
    good.admitted = True
    lines = [line for story in (refused, wide, good) for line in written(ERAS[2], story)]
    bundle = bundled(kubelet__log=noisy(lines, journald))
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_bytes(render(findings(bundle), bundle.files))
    return path


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_fits_asks_for_nothing_and_axe_finds_nothing_wrong(
    browser: Browser, file: Path, width: int, theme: Literal["light", "dark"]
) -> None:
    # The page forbids every script; axe is one, and gets in past that.
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, bypass_csp=True
    )
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("article").count() == 3
    assert page.locator("mark").count() > 2
    assert (said, asked) == ([], [file.as_uri()])
    found = Axe().run(page).response["violations"]
    assert [one["id"] for one in found] == []
    context.close()
