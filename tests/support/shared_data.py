"""Where the captured machines and samples of other projects are: they are read in place, never committed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

MISSING = "there are no samples of other projects beside the checkout or in NUMAWARE_SHARED"
ROOT = Path(os.environ.get("NUMAWARE_SHARED", Path(__file__).parents[3] / "shared"))


def shared(*parts: str) -> Path:
    """A path in the shared data; without it a stranger's run skips and continuous integration fails."""
    path = ROOT.joinpath(*parts)
    if path.exists():
        return path
    if os.environ.get("CI") == "true":
        pytest.fail(f"{path}: {MISSING}")
    pytest.skip(MISSING)
