"""One real browser for the pages of a module: Debian's Chromium, not one that Playwright would download."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(
            "there is no chromium; on Debian: apt-get install chromium"
        )
    with sync_playwright() as playwright:
        # Inside a container there is often no sandbox to be had; the page is our own.
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()
