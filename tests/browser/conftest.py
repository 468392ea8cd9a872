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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A browser that had too little of two cores is asked once more; the run tells that it was."""
    for item in items:
        if "browser" in item.path.parts:
            item.add_marker(pytest.mark.flaky(reruns=2))
