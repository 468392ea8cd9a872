"""The pictures in the guide are what the program draws today."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "scripts" / "pictures.py"


def test_the_pictures_in_the_guide_are_up_to_date() -> None:
    result = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"run scripts/pictures.py: {result.stdout}{result.stderr}"
