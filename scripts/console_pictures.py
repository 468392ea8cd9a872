#!/usr/bin/env python3
"""Photograph the console for docs/pictures: `python scripts/console_pictures.py` (needs the tests' Playwright and Chromium).

The pods are those of the lab and the clock is that of this machine, so no two runs give the same bytes.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
WIDTH = 1280


def _nothing(_: Page) -> None:
    """The page as it opens."""


class Shot(NamedTuple):
    """A page, how much of it, in which light, and what somebody does there first."""

    name: str
    path: str
    height: int
    theme: Literal["light", "dark"] = "light"
    first: Callable[[Page], object] = _nothing


def _point_at_a_gpu_pod(page: Page) -> None:
    page.locator(".zone .hold .dev").first.hover(force=True)


def _try_a_refusal(page: Page) -> None:
    page.locator(".vitem", has=page.locator(".refused")).first.click()


def _move_the_switch(page: Page) -> None:
    page.get_by_role("switch").first.click()


SHOTS = (
    Shot("console-overview", "/overview?shape=cpu:10,mem:120Gi,gpu:0", 760),
    Shot("console-node", "/nodes/gpu-1", 780, first=_point_at_a_gpu_pod),
    Shot("console-whatif", "/whatif?shape=cpu:14,mem:40Gi,gpu:0", 1000, "dark", _try_a_refusal),
    Shot("console-policies", "/policies", 620, first=_move_the_switch),
)


def main() -> int:
    program = shutil.which("chromium")
    if program is None:
        sys.stderr.write("there is no chromium; on Debian: apt-get install chromium\n")
        return 1
    with lab() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for shot in SHOTS:
            take(browser, url, shot)
            sys.stdout.write(f"taken: {shot.name}.png\n")
        browser.close()
    return 0


@contextmanager
def lab() -> Iterator[str]:
    """The address of `numaware up`, while it runs."""
    command = [sys.executable, "-m", "numaware", "up", "--port", "0", "--no-browser", "--no-record"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:  # noqa: S603 - our own program
        try:
            line = started.stdout.readline() if started.stdout else ""
            address = re.search(r"http://\S+?(?=/?\s|$)", line)
            if address is None:
                raise RuntimeError(f"numaware up said {line!r}")
            yield address[0].rstrip("/")
        finally:
            started.terminate()


def take(browser: Browser, url: str, shot: Shot) -> None:
    context = browser.new_context(
        viewport={"width": WIDTH, "height": shot.height},
        color_scheme=shot.theme,
        locale="en-US",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(url + shot.path)
    page.wait_for_timeout(2000)
    shot.first(page)
    page.wait_for_timeout(1500)
    page.screenshot(path=PICTURES / f"{shot.name}.png")
    context.close()


if __name__ == "__main__":
    sys.exit(main())
