"""Every run tries the same examples: a red run is red again, on any machine and however slow it is."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("numaware", derandomize=True, deadline=None, database=None)
settings.load_profile("numaware")


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
