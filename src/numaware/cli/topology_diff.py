"""`numaware topology diff`: what differs between two machines, as text or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby

import msgspec

from numaware.cli.output import write_json
from numaware.machine.diff import Difference, compare
from numaware.machine.drawing import terminal
from numaware.machine.topology import Machine
from numaware.machine.words import printable


def report(a: tuple[str, Machine], b: tuple[str, Machine], *, as_json: bool) -> int:
    """Print what differs between two named machines; 1 if anything does."""
    differences = compare(a[1], b[1])
    names = [printable(name, 1000) for name, _ in (a, b)]
    if as_json:
        document = {
            "same": not differences,
            "a": names[0],
            "b": names[1],
            "differences": [
                {**msgspec.structs.asdict(difference), "text": str(difference)} for difference in differences
            ],
        }
        write_json(document, indent=2)
    else:
        terminal.write_plain(_words(differences, names), sys.stdout)
    return int(bool(differences))


def _words(differences: Sequence[Difference], names: Sequence[str]) -> str:
    if not differences:
        return "alike\n"
    lines = [f"A  {names[0]}", f"B  {names[1]}"]
    for area, members in groupby(differences, key=lambda difference: difference.area):
        lines += ["", area, *(f"  {difference}" for difference in members)]
    return "".join(f"{line}\n" for line in lines)
