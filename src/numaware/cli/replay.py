"""What `twin replay` and `peers replay` share: every case of some files answered, or with --check compared with its record."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol

from numaware.cli.options import flag
from numaware.cli.recordings import answered, as_text, given, progress_of
from numaware.errors import InputError

Check = Annotated[bool, flag("Compare with the recorded results instead of printing answers.")]
SummaryAsJson = Annotated[bool, flag("With --check: the summary as one JSON object.", "--json")]

Answers = Iterator[tuple[Any, Any]]


class Tally(Protocol):
    """What one file came to; cases that are `unrecorded` have no result to compare with."""

    unrecorded: int
    disagreements: int

    @property
    def total(self) -> int:
        """All cases of the file."""

    def lines(self) -> Iterator[str]:
        """The same for a person."""


class Model(NamedTuple):
    """How cases are read, answered, written down, and held against their records, file by file."""

    case: type[Any]
    answer: Callable[[Any], object]
    document: Callable[[Any, Any], dict[str, object]]
    compare: Callable[[str, Answers], Tally]


def replay_files(model: Model, files: Sequence[Path], *, check: bool, as_json: bool) -> int:
    """Answer all cases, or compare all of them; 1 if some disagree."""
    given(files)
    tallies = []
    with progress_of(files, visible=check or not sys.stdout.isatty()) as progress:
        for file in files:
            answers = answered(file, progress, model.case, model.answer)
            if not check:
                sys.stdout.writelines(as_text(model.document(*answer)) + "\n" for answer in answers)
                continue
            tally = model.compare(str(file), answers)
            if tally.unrecorded == tally.total:
                # Agreement with nothing must not look like agreement.
                raise InputError(str(file), "no recorded result to compare with", hint="leave out --check")
            tallies.append(tally)
            if not as_json:
                sys.stdout.writelines(f"{line}\n" for line in tally.lines())
                sys.stdout.flush()
    if check and as_json:
        sys.stdout.write(as_text({"files": tallies}) + "\n")
    return int(any(tally.disagreements for tally in tallies))
