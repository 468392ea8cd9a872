"""Every run tries the same examples, and no test hears of another: a red run is red again, on any machine."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

settings.register_profile("numaware", derandomize=True, deadline=None, database=None)
settings.load_profile("numaware")

# Jobs in the background and some runners ignore signals, and whatever they start inherits that. A signal that is handled,
# if only by doing nothing, goes back to its default in a program that is started: as a terminal starts it.
for _number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)


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
