"""`numaware twin`: the model of the kubelet, asked directly and held against what real kubelets did."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

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
from numaware.twin.agreement import differences
from numaware.twin.recording import Recording
from numaware.twin.recording import replay as ask_twin

app = App(name="twin", help="Ask the model of the kubelet, and hold it against recorded kubelets.")


class Shown(msgspec.Struct, frozen=True):
    """One place where twin and kubelet disagree."""

    id: str
    path: str
    recorded: object
    twin: object


class Tally(msgspec.Struct, rename="camel"):
    """What one file came to. `unrecorded` scenarios have no result to compare with."""

    file: str
    scenarios: int = 0
    events: int = 0
    unrecorded: int = 0
    disagreeing_scenarios: int = 0
    disagreements: int = 0
    first: list[Shown] = []


@app.command
def replay(
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
    """Run recorded scenarios on the twin, one per line of each file.

    A line holds {"scenario": ...} and, where a kubelet was asked, its "result":
    a machine, a kubelet configuration, and pods that come and go. The answer is
    one line {"id", "result"} per scenario, in the shape of a recorded result.

    With --check the answers are compared instead. What a kubelet leaves to
    chance (listed in the recording as unstable) does not count.

    Exit code: 0 answered, or all agree; 1 some disagree; 2 a line cannot be
    read or describes a machine that cannot exist.

    For example:

      numaware twin replay scenarios.jsonl
      numaware twin replay --check vectors/kubelet/*.jsonl.gz
    """
    given(files)
    with progress_of(files, visible=check or not sys.stdout.isatty()) as progress:
        if not check:
            for file in files:
                for recording, answer in _answers(file, progress):
                    sys.stdout.write(as_text({"id": recording.scenario.id, "result": answer}) + "\n")
            return 0
        tallies = []
        for file in files:
            tallies.append(_compare(file, progress))
            if not as_json:
                sys.stdout.writelines(f"{line}\n" for line in _told(tallies[-1]))
                sys.stdout.flush()
    if as_json:
        sys.stdout.write(as_text({"files": tallies}) + "\n")
    return int(any(tally.disagreements for tally in tallies))


def _answers(file: Path, progress: Progress) -> Iterator[tuple[Recording, dict[str, object]]]:
    return answered(file, progress, Recording, lambda recording: ask_twin(recording.scenario))


def _compare(file: Path, progress: Progress) -> Tally:
    tally = Tally(str(file))
    for recording, answer in _answers(file, progress):
        tally.scenarios += 1
        if recording.result is None:
            tally.unrecorded += 1
            continue
        tally.events += len(recording.result.comparable)
        found = differences(recording.result, answer)
        if found:
            tally.disagreeing_scenarios += 1
            tally.disagreements += len(found)
            room = SHOWN - len(tally.first)
            tally.first += [Shown(recording.scenario.id, *difference) for difference in found[:room]]
    if tally.unrecorded == tally.scenarios:
        # Agreement with nothing must not look like agreement.
        raise InputError(str(file), "no recorded result to compare with", hint="leave out --check")
    return tally


def _told(tally: Tally) -> Iterator[str]:
    counts = f"{tally.scenarios} scenarios, {tally.events} events, {tally.disagreements} disagreements"
    if tally.disagreements:
        counts += f" in {tally.disagreeing_scenarios} scenarios"
    if tally.unrecorded:
        counts += f", {tally.unrecorded} scenarios without a result"
    first = ((f"{shown.id} {shown.path}", shown.recorded, shown.twin) for shown in tally.first)
    return told(f"{tally.file}: {counts}", first, "twin", tally.disagreements)
