"""`numaware topology diff`: find the odd one in a fleet."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from numaware.cli.output import deliver
from numaware.cli.topology import load
from numaware.machine.diff import compare

app = App(name="diff")


@app.default
def diff(
    a: Annotated[Path, Parameter(name="A", help="A folder, an archive, or a topology in JSON.")],
    b: Annotated[Path, Parameter(name="B", help="Another one.")],
    /,
    *,
    as_json: Annotated[
        bool, Parameter(name="--json", negative="", show_default=False, help="For programs.")
    ] = False,
) -> int:
    """Say what differs between two machines that should be alike.

    Equal differences are told once. Free huge pages, and memory that differs
    by less than 1 %, change with every boot and are no difference.

    Exit code: 0 alike, 1 something differs, 2 one of them cannot be read.

    For example:

      numaware topology diff node7.tar.gz node8.tar.gz
      numaware topology diff / golden.json
    """
    differences = compare(load(a), load(b))
    if as_json:
        document = {
            "same": not differences,
            "a": str(a),
            "b": str(b),
            "differences": [{**msgspec.structs.asdict(found), "text": str(found)} for found in differences],
        }
        deliver(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n", None)
    elif not differences:
        sys.stdout.write("alike\n")
    else:
        lines = []
        for index, found in enumerate(differences):
            if not index or differences[index - 1].area != found.area:
                lines.append(f"{found.area}\n")
            lines.append(f"  {found}\n")
        sys.stdout.write(f"A is {a}, B is {b}; each line says A vs B.\n\n{''.join(lines)}")
    return int(bool(differences))
