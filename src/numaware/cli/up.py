"""`numaware up`: the console on the embedded lab."""

from __future__ import annotations

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
from numaware.cli.options import option
from numaware.serve import logs
from numaware.serve.console.api.routes import Console
from numaware.serve.console.app import Access
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
) -> int:
    """Open the console on the embedded lab: no cluster, no Prometheus, no Node.js.

    The lab has thirty machines (among them a 28-CPU box with three P100, boxes of
    2 x 16 CPUs, and machines with eight GPUs) on which pods come and go. Ctrl-C ends it.

    Exit code: 0 ended by Ctrl-C or SIGTERM, 2 bad input.

    For example:

      numaware up
      numaware up --port 0 --no-browser
      numaware up --host 0.0.0.0 --token-file token
      numaware up --record lab.db
    """
    access = options.access(where)
    logs.set_up("text")
    run_until_signal(_serve(access, options, seed))
    return 0


async def _serve(access: Access, options: ConsoleOptions, seed: int) -> None:
    begin = milliseconds()
    world = LabWorld(begin - HOUR, seed=seed)
    console = Console(world, milliseconds, History(options.record) if options.record else None)
    for moment in range(begin - HOUR, begin, _STEP):
        world.advance(moment)
        console.write_down(wait=True)
    await serve_until_cancelled(console, access, options)
