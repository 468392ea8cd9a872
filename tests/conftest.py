"""Every run tries the same examples, and no test hears of another: a red run is red again, on any machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

settings.register_profile("numaware", derandomize=True, deadline=None, database=None)
settings.load_profile("numaware")


@pytest.fixture(autouse=True)
def forgotten_logs() -> Iterator[None]:
    """A daemon that a test starts in its own process logs to a standard error that ends with that test."""
    yield
    structlog.reset_defaults()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how far the twin agrees with recorded kubelets, group by group, whether the run is green or red."""
    agreement = [
        str(text)
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        for name, text in report.user_properties
        if name == "kubelet vectors"
    ]
    if agreement:
        terminalreporter.write_line(f"kubelet vectors: {', '.join(sorted(agreement))}")
