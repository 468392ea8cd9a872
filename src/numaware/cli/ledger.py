"""`numaware ledger`: predictions that a kubelet did not keep, replayed on the twin of this release."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from numaware.cli.options import AsJson
from numaware.cli.output import write_json
from numaware.errors import InputError
from numaware.machine.textfile import read_bounded
from numaware.schedule.ledger import Observation
from numaware.schedule.miss import Again, again

app = App(name="ledger", help="Look into predictions that the kubelet did not keep.")

_MOST_BYTES = 64 << 20


@app.command
def replay(
    *files: Annotated[Path, Parameter(name="FILE", help="Files that a scheduler kept (--misses FOLDER).")],
    as_json: AsJson = False,
) -> int:
    """Replay predictions that failed, on the twin as it is in this release.

    A scheduler keeps one file for each prediction that the kubelet did not
    keep: the node and its state, the pod, what was predicted and what
    happened. The twin is asked again; if it now says what the kubelet did,
    the miss is explained. So it is if the twin says so without pods that
    had gone by then: a kubelet lets go of a pod before the API server tells
    of it. If not, the file is what a bug report needs.

    Exit code: 0 every miss is explained, 1 some are not, 2 bad input.

    For example:

      numaware ledger replay misses/*.json
    """
    if not files:
        raise InputError("FILE", "no file was given", hint="such as misses/*.json")
    replayed = [
        (file, again(read_bounded(file, _MOST_BYTES, ", which no miss is"), str(file))) for file in files
    ]
    if as_json:
        write_json({"misses": [{"file": str(file), **msgspec.to_builtins(one)} for file, one in replayed]})
    else:
        sys.stdout.writelines(f"{line}\n" for file, one in replayed for line in _lines(file, one))
    return int(not all(one.explained for _, one in replayed))


def _lines(file: Path, one: Again) -> Iterator[str]:
    yield f"{file}: {one.id}: {one.outcome}"
    yield f"  predicted  {_said(one.predicted)}"
    yield f"  observed   {_said(one.observed)}"
    yield f"  twin now   {_said(one.now)}"
    if one.without:
        yield f"  explained: {' and '.join(one.without)} had gone before the pod came, and the API server told of it later"
    else:
        yield f"  {'explained' if one.explained else 'not explained: please report it, with this file'}"


def _said(observation: Observation) -> str:
    if observation.placement is None:
        return f"refused ({observation.reason})"
    zones = [
        f"NUMA {zone.numa}{f' (CPUs {zone.cpus})' if zone.cpus else ''}"
        for zone in observation.placement.zones
    ]
    return f"placed on {' and '.join(zones) or 'no NUMA node in particular'}"
