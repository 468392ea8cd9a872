"""`numaware twin`: the model of the kubelet, asked directly and held against what real kubelets did."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from cyclopts import App

from numaware.cli.recordings import SHOWN, RecordedFile, told
from numaware.cli.replay import Answers, Check, Model, SummaryAsJson, replay_files
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

    @property
    def total(self) -> int:
        return self.scenarios

    def lines(self) -> Iterator[str]:
        counts = f"{self.scenarios} scenarios, {self.events} events, {self.disagreements} disagreements"
        if self.disagreements:
            counts += f" in {self.disagreeing_scenarios} scenarios"
        if self.unrecorded:
            counts += f", {self.unrecorded} scenarios without a result"
        first = ((f"{shown.id} {shown.path}", shown.recorded, shown.twin) for shown in self.first)
        return told(f"{self.file}: {counts}", first, "twin", self.disagreements)


@app.command
def replay(*files: RecordedFile, check: Check = False, as_json: SummaryAsJson = False) -> int:
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
    return replay_files(_TWIN, files, check=check, as_json=as_json)


def _compare(file: str, answers: Answers) -> Tally:
    tally = Tally(file)
    for recording, answer in answers:
        tally.scenarios += 1
        if recording.result is None:
            tally.unrecorded += 1
            continue
        tally.events += len(recording.result.comparable)
        disagreements = differences(recording.result, answer)
        tally.disagreeing_scenarios += bool(disagreements)
        tally.disagreements += len(disagreements)
        room = SHOWN - len(tally.first)
        tally.first += [Shown(recording.scenario.id, *one) for one in disagreements[:room]]
    return tally


_TWIN = Model(
    Recording,
    lambda recording: ask_twin(recording.scenario),
    lambda recording, answer: {"id": recording.scenario.id, "result": answer},
    _compare,
)
