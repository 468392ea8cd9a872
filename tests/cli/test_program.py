"""The program before any verb is called: what it needs, and Ctrl-C while it starts."""

from __future__ import annotations

import ast
import re
import signal
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Presses Ctrl-C while a module is imported, which is where most of the first half second goes.
INTERRUPTED = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["numaware", "up", "--port", "0", "--no-browser"]
from numaware.__main__ import run
run()
"""


@pytest.mark.parametrize(
    ("module", "status"),
    [("cyclopts", -signal.SIGINT), ("numaware.cli.up", 130), ("numaware.serve.console.app", 130)],
)
def test_ctrl_c_while_it_starts_leaves_no_traceback(module: str, status: int) -> None:
    command = [sys.executable, "-c", INTERRUPTED.format(module=module)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")


def test_who_starts_it_deaf_to_ctrl_c_keeps_it_so() -> None:
    code = "import signal; signal.signal(2, signal.SIG_IGN); import numaware.__main__; print(signal.getsignal(2) == 1)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def declared() -> dict[str, str]:
    """What the package says it needs: name -> the oldest release."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    given = [
        *project["dependencies"],
        *(one for extra in project["optional-dependencies"].values() for one in extra),
    ]
    pairs = [re.match(r"([\w-]+)>=([\d.]+)", one) for one in given]
    return {pair[1].replace("-", "_"): pair[2] for pair in pairs if pair}


def test_whatever_is_imported_is_declared() -> None:
    imported = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add((node.module or "").partition(".")[0])
    # Extras are not installed here, and one of their modules is not called like its package.
    owners = {"pynvml": ["nvidia-ml-py"], **packages_distributions()}
    foreign = imported - set(sys.stdlib_module_names) - {"numaware"}
    needed = {
        name: {re.sub(r"[-.]", "_", one.lower()) for one in owners.get(name, [name])} for name in foreign
    }
    assert {name for name, packages in needed.items() if not packages & declared().keys()} == set()


def test_nothing_older_is_allowed_than_what_the_tests_run_with() -> None:
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    locked = {one["name"].replace("-", "_"): one.get("version", "") for one in lock["package"]}
    oldest = {name: floor.split(".")[:2] for name, floor in declared().items() if name != "ray"}
    assert oldest == {name: locked[name].split(".")[:2] for name in oldest}
