"""`numaware checkpoint`: state files of a kubelet shown, and whether it would accept them when it restarts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from numaware.cli.checkpoint_view import Table, View, view
from numaware.cli.file_input import read_file
from numaware.cli.options import dashed
from numaware.cli.output import complain, write_json
from numaware.cli.tables import aligned, widths
from numaware.errors import InputError
from numaware.machine.textfile import MAX_TEXT_BYTES
from numaware.machine.words import printable
from numaware.twin.state import document
from numaware.twin.state.verify import Report, parse
from numaware.twin.state.verify import verify as judge

app = App(name="checkpoint", help="Read and verify the state files of a kubelet.")

Files = Annotated[list[Path], dashed("State files, copies or pastes of them; - is stdin.", "FILE")]
AsJson = Annotated[bool, Parameter(name="--json", negative="", help="One JSON object per file and line.")]


@app.command
def verify(files: Files, /, *, as_json: AsJson = False) -> int:
    """Say whether a kubelet would take its state files back, one line per file.

    A kubelet writes down what it gave to whom, and reads it back at restart:

      /var/lib/kubelet/cpu_manager_state        CPUs
      /var/lib/kubelet/memory_manager_state     memory and huge pages
      /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint   devices

    With a wrong checksum in one of the first two it does not start; the third
    it ignores, and may then give devices away twice.

    Which file it is and which layout it has is found from the content, so any
    copy will do: pretty-printed, with comments, or pasted with its prompt.

    Exit code: 0 all valid, 1 some invalid, 2 some could not be read.

    For example:

      numaware checkpoint verify /var/lib/kubelet/*_manager_state
      ssh n1 cat /var/lib/kubelet/cpu_manager_state | numaware checkpoint verify -
    """

    def one(data: bytes, source: str) -> int:
        report = judge(data, source)
        if as_json:
            write_json(report)
        else:
            sys.stdout.write(f"{_verdict(report)}\n")
        return int(not report.valid)

    return _each(files, one)


@app.command
def show(files: Files, /, *, as_json: AsJson = False) -> int:
    """Show who holds which CPUs, memory and devices, and what is left.

    A file with a wrong checksum is shown all the same, with a warning.

    Exit code: 0 shown, 1 shown but a kubelet would refuse a file, 2 some could
    not be read.

    For example:

      numaware checkpoint show /var/lib/kubelet/cpu_manager_state
      numaware checkpoint show --json cpu_manager_state memory_manager_state
    """

    def one(data: bytes, source: str) -> int:
        seen = view(parse(document.read(data, source).fields, source))
        report = judge(data, source)
        if as_json:
            write_json({**msgspec.to_builtins(report), **seen.facts})
        else:
            _print_view(report, seen)
        return int(not report.valid)

    return _each(files, one)


def _each(files: Sequence[Path], act: Callable[[bytes, str], int]) -> int:
    """Act on every file, so that one bad file does not hide the others; the worst exit code wins."""
    worst = 0
    for path in files:
        try:
            worst = max(worst, act(read_file(path, MAX_TEXT_BYTES), str(path)))
        except (InputError, OSError) as error:
            complain(f"{path}: {error.strerror or error}" if isinstance(error, OSError) else str(error))
            worst = 2
    return worst


def _verdict(report: Report) -> str:
    """`FILE: valid cpu state v2, checksum 123`: the words a script greps for come first."""
    what = (report.kind, "state", report.format) if report.kind != "unknown" else ()
    parts = [" ".join(word for word in ("valid" if report.valid else "INVALID", *what) if word)]
    if report.valid and report.checksum_stored:
        parts.append(f"checksum {report.checksum_stored}")
    parts += [text for text in (report.problem, report.note) if text]
    return printable(f"{report.file}: {', '.join(parts)}", 1000)


def _print_view(report: Report, seen: View) -> None:
    """The verdict, the sentence, the tables, and a blank line before the next file."""
    sys.stdout.write(f"{_verdict(report)}\n  {seen.headline}\n\n")
    for table in seen.tables:
        if sys.stdout.isatty():
            _print_rich(table)
        else:
            # Nothing is cut: what a pipe or a ticket wants.
            sys.stdout.writelines(aligned((table.columns, *table.rows), gap=2))
            sys.stdout.write("\n")


def _print_rich(table: Table) -> None:
    """Columns that fit the terminal: they move together, then long lists fold instead of running off the screen."""
    from rich.console import Console  # noqa: PLC0415 - only a terminal pays for the import
    from rich.table import Table as RichTable  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console()
    room = sum(widths((table.columns, *table.rows))) + 2 * len(table.columns)
    gap = 2 if room <= console.width else 1
    drawn = RichTable(box=None, padding=(0, gap, 0, 0), header_style="bold")
    for column in table.columns:
        drawn.add_column(column, overflow="fold")
    for row in table.rows:
        drawn.add_row(*map(Text, row))
    console.print(drawn)
    console.print()
