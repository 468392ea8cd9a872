"""What `twin replay` and `peers replay` share: every case of some files answered, or with --check compared with its record."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from numaware.cli.options import flag
from numaware.cli.recordings import answered, as_text, parting, progress_of
from numaware.errors import InputError
from numaware.machine.words import printable

Check = Annotated[bool, flag("Compare with the recorded results instead of printing answers.")]
SummaryAsJson = Annotated[bool, flag("With --check: the summary as one JSON object.", "--json")]

# How many disagreements of a file are shown.
_SHOWN = 5


class Difference(NamedTuple):
    """One place where a model and a recording part; no `path` where a case is right or wrong as a whole."""

    id: str
    path: str
    recorded: object
    answer: object


class Model(NamedTuple):
    """How cases are read, answered, written down, and held against their records.

    `name` is what the model's answer is called, `cases` what its cases are. A case without a result has None for
    `differences`. `events` counts what is compared within a case, for models that compare them one by one. `leaves_out`
    says of which cases the model knows too little to be compared.
    """

    name: str
    cases: str
    case: type[Any]
    answer: Callable[[Any], object]
    document: Callable[[Any, Any], dict[str, object]]
    differences: Callable[[Any, Any], Sequence[Difference] | None]
    events: Callable[[Any], int] | None = None
    leaves_out: Callable[[Any], bool] | None = None


class _Tally(msgspec.Struct):
    """What one file came to. `unrecorded` cases have no result to compare with."""

    file: str
    total: int = 0
    events: int = 0
    unrecorded: int = 0
    left_out: int = 0
    disagreeing: int = 0
    disagreements: int = 0
    first: list[Difference] = []


def replay_files(model: Model, files: Sequence[Path], *, check: bool, as_json: bool) -> int:
    """Answer all cases, or compare all of them; 1 if some disagree."""
    if not files:
        # Files are named anywhere on the command line, so that none at all is ours to refuse.
        raise InputError(
            "PATH", "no file is given", hint="name files of recorded cases, or - for standard input"
        )
    tallies = []
    with progress_of(files, visible=check or not sys.stdout.isatty()) as progress:
        for file in files:
            answers = answered(file, progress, model.case, model.answer)
            if not check:
                sys.stdout.writelines(as_text(model.document(*answer)) + "\n" for answer in answers)
                continue
            tally = _compare(model, str(file), answers)
            if tally.unrecorded + tally.left_out == tally.total:
                # Agreement with nothing must not look like agreement.
                raise InputError(str(file), "no recorded result to compare with", hint="leave out --check")
            tallies.append(tally)
            if not as_json:
                sys.stdout.writelines(f"{line}\n" for line in _lines(model, tally))
                sys.stdout.flush()
    if check and as_json:
        sys.stdout.write(as_text({"files": [_summary(model, tally) for tally in tallies]}) + "\n")
    return int(any(tally.disagreements for tally in tallies))


def _compare(model: Model, file: str, answers: Iterable[tuple[Any, Any]]) -> _Tally:
    tally = _Tally(file)
    for case, answer in answers:
        tally.total += 1
        if model.leaves_out and model.leaves_out(case):
            tally.left_out += 1
            continue
        differences = model.differences(case, answer)
        if differences is None:
            tally.unrecorded += 1
            continue
        tally.events += model.events(case) if model.events else 0
        tally.disagreeing += bool(differences)
        tally.disagreements += len(differences)
        tally.first += differences[: _SHOWN - len(tally.first)]
    return tally


def _summary(model: Model, tally: _Tally) -> dict[str, object]:
    """The tally as `--json` prints it."""
    first = [
        {
            "id": one.id,
            **({"path": one.path} if model.events else {}),
            "recorded": one.recorded,
            model.name: one.answer,
        }
        for one in tally.first
    ]
    return {
        "file": tally.file,
        model.cases: tally.total,
        **({"events": tally.events} if model.events else {}),
        "unrecorded": tally.unrecorded,
        **({"leftOut": tally.left_out} if model.leaves_out else {}),
        **({f"disagreeing{model.cases.title()}": tally.disagreeing} if model.events else {}),
        "disagreements": tally.disagreements,
        "first": first,
    }


def _lines(model: Model, tally: _Tally) -> Iterator[str]:
    """The line a script greps for, then the first disagreements (where, recorded, the model's answer) for the eye."""
    counts = f"{tally.total} {model.cases}"
    if model.events:
        counts += f", {tally.events} events"
    counts += f", {tally.disagreements} disagreements"
    if model.events and tally.disagreements:
        counts += f" in {tally.disagreeing} {model.cases}"
    if tally.unrecorded:
        counts += f", {tally.unrecorded} {model.cases} without a result"
    if tally.left_out:
        counts += f", {tally.left_out} {model.cases} left out"
    yield printable(f"{tally.file}: {counts}", 1000)
    for one in tally.first:
        recorded, answer = parting(as_text(one.recorded), as_text(one.answer))
        yield printable(f"  {one.id} {one.path}".rstrip(), 1000)
        yield f"    recorded  {printable(recorded, 1000)}"
        yield f"    {model.name:<8}  {printable(answer, 1000)}"
    if tally.disagreements > len(tally.first):
        yield f"  and {tally.disagreements - len(tally.first)} more"
