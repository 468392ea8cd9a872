"""What a user installs: the wheel alone, in a fresh environment, far from the working tree."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest

from numaware import __version__

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parents[2]


def run(*command: str | Path, cwd: Path) -> str:
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(Path(sys.executable).with_name("uv"), "build", "--wheel", "--quiet", "--out-dir", folder, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def numaware(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The installed program, brought in by plain pip."""
    home = tmp_path_factory.mktemp("home")
    run(sys.executable, "-m", "venv", home / "venv", cwd=home)
    run(home / "venv/bin/python", "-m", "pip", "install", "--quiet", wheel, cwd=home)
    return home / "venv/bin/numaware"


def test_the_wheel_holds_the_typed_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "numaware/py.typed" in names
    assert {name.split("/")[0] for name in names} == {"numaware", f"numaware-{__version__}.dist-info"}
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if "test" in name or name.endswith(".pyc")]


def test_the_installed_program_knows_its_version(numaware: Path, tmp_path: Path) -> None:
    assert run(numaware, "--version", cwd=tmp_path).strip() == __version__


def test_the_installed_program_sees_this_machine(numaware: Path, tmp_path: Path) -> None:
    machine = msgspec.json.decode(run(numaware, "topology", "show", "--format", "json", cwd=tmp_path))
    assert machine["cpuCount"] == len([cpu for cpu in machine["cpus"] if cpu["online"]]) > 0
    assert machine["numa"]
