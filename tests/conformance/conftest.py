"""What is tried on samples of other projects, read in place, says with one voice when they are not there."""

from __future__ import annotations

import pytest

from support.shared_data import MISSING


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test without samples to be tried on is skipped by pytest, for a reason that tells nobody what is missing."""
    for item in items:
        reasons = [mark.kwargs.get("reason", "") for mark in item.iter_markers("skip")]
        if any("empty parameter set" in reason for reason in reasons):
            item.add_marker(pytest.mark.skip(reason=MISSING), append=False)
