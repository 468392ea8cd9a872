"""One real browser for the pages of a module: Debian's Chromium, not one that Playwright would download."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

# Not how fast a page is, but what it comes to; a machine that has other things to do takes its time.
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        _without("chromium")
    try:
        # Playwright's own program asks for it.
        ctypes.CDLL("libatomic.so.1")
    except OSError:
        _without("libatomic1")
    with sync_playwright() as playwright:
        # Inside a container there is often no sandbox to be had; the page is our own.
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


def _without(package: str) -> None:
    (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(
        f"there is no {package}; on Debian: apt-get install {package}"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A browser that had too little of two cores is asked once more; the run tells that it was."""
    for item in items:
        if "browser" in item.path.parts:
            item.add_marker(pytest.mark.flaky(reruns=2))
