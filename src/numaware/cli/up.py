"""`numaware up`: the console on the embedded lab."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App

from numaware.cli.console_input import (
    USUAL_CONSOLE,
    USUAL_PLACE,
    ConsoleOptions,
    Listening,
    milliseconds,
    serve_until_cancelled,
)
from numaware.cli.live_input import run_until_signal
from numaware.cli.options import flag, option
from numaware.errors import InputError
from numaware.serve import logs
from numaware.serve.console.api.routes import Console
from numaware.serve.console.app import Access, checked
from numaware.serve.console.history.api import History
from numaware.serve.console.lab.world import HOUR, LabWorld

app = App(name="up", usage="Usage: numaware up [OPTIONS]")

_STEP = 15_000


@app.default
def up(
    *,
    where: Listening = USUAL_PLACE,
    options: ConsoleOptions = USUAL_CONSOLE,
    seed: Annotated[int, option("Which life the lab leads.")] = 1,
    no_record: Annotated[bool, flag("Keep no history.")] = False,
) -> int:
    """Open the console on the embedded lab: no cluster, no Prometheus, no Node.js.

    The lab has thirty machines (among them a 28-CPU box with three P100, boxes of
    2 x 16 CPUs, and machines with eight GPUs) on which pods come and go. Ctrl-C ends it.

    What happens is recorded, so that the page can go back in time: in FILE, or in
    numaware/lab.db below $XDG_STATE_HOME (~/.local/state), seven days and at most 1 GiB.
    Delete the file when the console has ended, and it is forgotten.

    Exit code: 0 ended by Ctrl-C or SIGTERM, 2 bad input.

    For example:

      numaware up
      numaware up --port 0 --no-browser
      numaware up --host 0.0.0.0 --token-file token
      numaware up --record lab.db
    """
    access = options.access(where)
    checked(access)
    logs.set_up("text")
    if options.record and no_record:
        raise InputError("--no-record", "cannot be given with --record")
    history = None if no_record else _history(options.record)
    run_until_signal(_serve(access, options, seed, history))
    return 0


def _history(file: Path | None) -> History | None:
    """Where the lab's life is written down. Nobody asked for the usual file: the lab does without where that cannot be had."""
    path = file or Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state", "numaware/lab.db")
    try:
        if file is None:
            path.parent.mkdir(parents=True, exist_ok=True)
        history = History(path)
    except (InputError, OSError, RuntimeError) as error:
        if file is not None:
            raise
        _say(f"not recording: {error}")
        return None
    if not history.writer.problem:
        _say(f"recording to {path}: seven days, at most 1 GiB; delete it when the console has ended")
    return history


def _say(text: str) -> None:
    """What is being done, beside the one line with the address."""
    sys.stderr.write(f"numaware: {text}\n")


async def _serve(access: Access, options: ConsoleOptions, seed: int, history: History | None) -> None:
    begin = milliseconds()
    world = LabWorld(begin - HOUR, seed=seed)
    _say(f"playing the first hour of a lab of {len(world.cluster)} machines")
    console = Console(world, milliseconds, history)
    for moment in range(begin - HOUR, begin, _STEP):
        world.advance(moment)
        console.write_down(wait=True)
    await serve_until_cancelled(console, access, options)
