"""What a command imports is what a user waits for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from numaware.machine import codec, synthetic

NEVER = {
    "aiohttp", "asyncio", "grpc", "http", "numpy", "pygments", "rich.markdown", "rich.progress", "socket", "ssl",
    "starlette", "structlog", "tarfile", "uvicorn", "xml", "yaml",
}  # fmt: skip
DRAWING = {"numaware.machine.drawing.svg", "numaware.machine.drawing.text"}


def imported(*arguments: str) -> set[str]:
    """The modules that a fresh Python has loaded after the command."""
    program = (
        "import sys\n"
        "from numaware.cli import main\n"
        f"code = main({list(arguments)!r})\n"
        "sys.stdout.flush()\n"
        "print('\\nMODULES', code, *sys.modules)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    code, *modules = result.stdout.rpartition("MODULES ")[2].split()
    assert code == "0", result.stderr
    return set(modules)


@pytest.fixture
def machine(tmp_path: Path) -> str:
    path = tmp_path / "machine.json"
    path.write_bytes(codec.encode(synthetic.read("2s x 1n x 4c +gpu@0")))
    return str(path)


def test_help_imports_no_verb_and_nothing_heavy() -> None:
    modules = imported("--help")
    assert not modules & NEVER
    assert not {name for name in modules if name.startswith(("numaware.machine", "numaware.cli."))}


def test_a_json_answer_imports_no_drawing_and_no_terminal(machine: str) -> None:
    modules = imported("topology", "show", "--root", machine, "--json")
    assert not modules & (NEVER | DRAWING | {"rich", "numaware.machine.capture", "numaware.machine.merge"})


@pytest.mark.parametrize("form", ["text", "svg"])
def test_a_picture_for_a_pipe_imports_no_terminal(machine: str, form: str) -> None:
    assert not imported("topology", "show", "--root", machine, "--format", form) & (NEVER | {"rich"})


def test_a_comparison_imports_no_picture(machine: str) -> None:
    assert not imported("topology", "diff", machine, machine) & (NEVER | DRAWING | {"rich"})


def test_linting_and_recommending_import_neither_the_lab_nor_a_scheduler(
    tmp_path: Path, machine: str
) -> None:
    config = tmp_path / "kubelet.yaml"
    config.write_text("topologyManagerPolicy: restricted\n")
    for arguments in (("lint", str(config)), ("config", "recommend", "--workload", "mixed", machine)):
        modules = imported(*arguments)
        assert not modules & (NEVER - {"yaml"})
        assert not {name for name in modules if name.startswith(("numaware.simulate", "numaware.schedule"))}
