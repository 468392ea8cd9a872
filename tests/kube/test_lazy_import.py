"""Who asks a file pays for no network: the wires are imported by the call that uses them, or by verbs that stay up."""

from __future__ import annotations

import subprocess
import sys

from numaware.cli import VERBS

# Each verb is imported when it is called and not before; these are nothing without a cluster, or a server of their own.
STAY_UP = {"agent", "console", "up"}
WIRES = ("aiohttp", "kubernetes_asyncio", "numaware.kube.client")


def test_no_verb_that_answers_brings_the_wires_just_by_being_imported() -> None:
    modules = [
        "numaware.cli",
        *(f"numaware.cli.{verb.replace(chr(45), chr(95))}" for verb in VERBS if verb not in STAY_UP),
    ]
    program = (
        "import importlib, sys\n"
        f"for name in {modules!r}:\n"
        "    importlib.import_module(name)\n"
        f"    found = [wire for wire in {WIRES!r} if wire in sys.modules]\n"
        "    if found:\n"
        "        sys.exit(f'{name} imports {found}')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_agent_logs_without_a_package_that_draws_and_leaves_it_to_those_who_do() -> None:
    program = (
        "import sys\n"
        "from numaware.cli import agent\n"
        "agent.import_plain_logs()\n"
        "import numaware.node.agent\n"
        "assert 'rich' not in sys.modules\n"
        "import rich.console\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
