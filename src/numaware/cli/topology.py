"""`numaware topology`: see a machine, compare two, or save one for somebody else to look at."""

from __future__ import annotations

from pathlib import Path

from cyclopts import App

app = App(name="topology", help="See a machine: NUMA nodes, CPUs, caches, memory, devices, distances.")


@app.command
def show(*, root: Path = Path("/")) -> int:
    """Show a machine."""
    return int(not root.exists())
