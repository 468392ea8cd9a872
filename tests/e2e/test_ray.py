"""A sweep on real Ray, installed as a user installs it, comes to what a sweep on this machine comes to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parents[2]

PROGRAM = """
import msgspec
from numaware.simulate.sweep import plan, run_all
from support.small_sweeps import places

def timeless(one):
    return msgspec.structs.replace(one, run=msgspec.structs.replace(one.run, decisions_per_second=0.0))

jobs = plan(places(), ["numaware", "kube-scheduler", "random"], [1, 2])
here, there = run_all(jobs, workers=1), run_all(jobs, engine="ray")
assert [timeless(one) for one in here] == [timeless(one) for one in there]
print(len(there))
"""


def test_ray_gives_the_same_results(tmp_path: Path) -> None:
    def run(*command: str | Path, **more: str) -> str:
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
        }
        done = subprocess.run(
            command, cwd=tmp_path, env=clean | more, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    run(python, "-m", "pip", "install", "--quiet", f"{ROOT}[ray]")
    assert run(python, "-c", PROGRAM, PYTHONPATH=str(ROOT / "tests")).split()[-1] == "12"
