"""What the tests on real components share: a control plane and a browser for each module, and logs beside a failure."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from e2e.control_plane import ControlPlane


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """etcd and the API server, with everything of deploy/rbac in it; schedulers are started by whoever wants one."""
    with ControlPlane(tmp_path_factory.mktemp("plane")) as started:
        yield started


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real one."""
    program = shutil.which("chromium")
    assert program, "there is no chromium; on Debian: apt-get install chromium"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A cluster that had too little of two cores is tried again; the run tells that it was, and why."""
    for item in items:
        if "e2e" in item.path.parts and not item.get_closest_marker("long"):
            item.add_marker(pytest.mark.flaky(reruns=2))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    found = getattr(item, "funcargs", {}).get("plane")
    if report.failed and isinstance(found, ControlPlane):
        report.sections += [(f"log of {program.name}", program.tail()) for program in found.programs.values()]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why a test was tried again, and what was measured on the way (`record_property("measured", ...)`)."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"tried again: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            for name, text in report.user_properties:
                if name == "measured":
                    terminalreporter.write_line(f"measured: {text}")
