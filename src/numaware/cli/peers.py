"""`numaware peers`: the rules of other schedulers, asked directly and held against what those schedulers did."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from cyclopts import App, Parameter

from numaware.cli.recordings import (
    SHOWN,
    Progress,
    RecordedFile,
    answered,
    as_text,
    given,
    progress_of,
    told,
)
from numaware.errors import InputError
from numaware.schedule.peers import recorded_plugin, recorded_volcano

app = App(name="peers", help="Ask the rules of other schedulers, and hold them against recordings.")


class _Peer(NamedTuple):
    """How the cases of one peer are read, answered and compared."""

    case: type[Any]
    answer: Callable[[Any], object]
    agrees: Callable[[Any, Any], bool]


_PEERS = {
    "scheduler-plugins": _Peer(recorded_plugin.PluginCase, recorded_plugin.answer, recorded_plugin.agrees),
    "volcano": _Peer(recorded_volcano.VolcanoCase, recorded_volcano.answer, recorded_volcano.agrees),
}


class Shown(msgspec.Struct, frozen=True):
    """One case on which the model and the peer's own code disagree."""

    id: str
    recorded: object
    model: object


class Tally(msgspec.Struct):
    """What one file came to. `unrecorded` cases have no result to compare with."""

    file: str
    cases: int = 0
    unrecorded: int = 0
    disagreements: int = 0
    first: list[Shown] = []


@app.command(usage="Usage: numaware peers replay [OPTIONS] PEER PATH...")
def replay(
    peer: Annotated[
        Literal["scheduler-plugins", "volcano"], Parameter(name="PEER", help="Whose cases they are.")
    ],
    /,
    *files: RecordedFile,
    check: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Compare with the recorded results instead of printing answers.",
        ),
    ] = False,
    as_json: Annotated[
        bool,
        Parameter(
            name="--json",
            negative="",
            show_default=False,
            help="With --check: the summary as one JSON object.",
        ),
    ] = False,
) -> int:
    """Run recorded cases on the rules of another scheduler, one per line of each file.

    Of scheduler-plugins the plugin NodeResourceTopologyMatch is known (Filter,
    Score, assumed pods), of Volcano the plugin numa-aware (nodes that fit, CPUs,
    scores). The answer is one line {"id", "expect"} per case, in the shape of a
    recorded one.

    With --check the answers are compared instead. Where the scheduler leaves its
    answer to chance any recorded one is right, and where it crashed any is.

    Exit code: 0 answered, or all agree; 1 some disagree; 2 a line cannot be
    read.

    For example:

      numaware peers replay volcano cases.jsonl
      numaware peers replay scheduler-plugins --check vectors/*.jsonl.gz
    """
    given(files)
    chosen = _PEERS[peer]
    with progress_of(files, visible=check or not sys.stdout.isatty()) as progress:
        if not check:
            for file in files:
                for case, answer in _answers(chosen, file, progress):
                    sys.stdout.write(as_text({"id": case.id, "expect": answer}) + "\n")
            return 0
        tallies = [_compare(chosen, file, progress) for file in files]
    if as_json:
        sys.stdout.write(as_text({"files": tallies}) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for tally in tallies for line in _told(tally))
    return int(any(tally.disagreements for tally in tallies))


def _answers(peer: _Peer, file: Path, progress: Progress) -> Iterator[tuple[Any, object]]:
    return answered(file, progress, peer.case, peer.answer)


def _compare(peer: _Peer, file: Path, progress: Progress) -> Tally:
    tally = Tally(str(file))
    for case, answer in _answers(peer, file, progress):
        tally.cases += 1
        if case.expect is None:
            tally.unrecorded += 1
        elif not peer.agrees(case, answer):
            tally.disagreements += 1
            if len(tally.first) < SHOWN:
                tally.first.append(Shown(case.id, case.expect, answer))
    if tally.unrecorded == tally.cases:
        # Agreement with nothing must not look like agreement.
        raise InputError(str(file), "no recorded result to compare with", hint="leave out --check")
    return tally


def _told(tally: Tally) -> Iterator[str]:
    counts = f"{tally.cases} cases, {tally.disagreements} disagreements"
    if tally.unrecorded:
        counts += f", {tally.unrecorded} cases without a result"
    first = ((shown.id, shown.recorded, shown.model) for shown in tally.first)
    return told(f"{tally.file}: {counts}", first, "model", tally.disagreements)
