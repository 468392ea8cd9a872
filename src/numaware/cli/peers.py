"""`numaware peers`: the rules of other schedulers, asked directly and held against what those schedulers did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import App, Parameter

from numaware.cli.recordings import SHOWN, RecordedFile, told
from numaware.cli.replay import Answers, Check, Model, SummaryAsJson, replay_files
from numaware.schedule.peers import recorded_plugin, recorded_volcano

app = App(name="peers", help="Ask the rules of other schedulers, and hold them against recordings.")


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

    @property
    def total(self) -> int:
        return self.cases

    def lines(self) -> Iterator[str]:
        counts = f"{self.cases} cases, {self.disagreements} disagreements"
        if self.unrecorded:
            counts += f", {self.unrecorded} cases without a result"
        first = ((shown.id, shown.recorded, shown.model) for shown in self.first)
        return told(f"{self.file}: {counts}", first, "model", self.disagreements)


@app.command(usage="Usage: numaware peers replay [OPTIONS] PEER PATH...")
def replay(
    peer: Annotated[
        Literal["scheduler-plugins", "volcano"], Parameter(name="PEER", help="Whose cases they are.")
    ],
    /,
    *files: RecordedFile,
    check: Check = False,
    as_json: SummaryAsJson = False,
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
    return replay_files(_PEERS[peer], files, check=check, as_json=as_json)


def _model(case: type[Any], answer: Callable[[Any], object], agrees: Callable[[Any, Any], bool]) -> Model:
    def compare(file: str, answers: Answers) -> Tally:
        tally = Tally(file)
        for recorded, replied in answers:
            tally.cases += 1
            if recorded.expect is None:
                tally.unrecorded += 1
            elif not agrees(recorded, replied):
                tally.disagreements += 1
                if len(tally.first) < SHOWN:
                    tally.first.append(Shown(recorded.id, recorded.expect, replied))
        return tally

    return Model(case, answer, lambda recorded, answer: {"id": recorded.id, "expect": answer}, compare)


_PEERS = {
    "scheduler-plugins": _model(recorded_plugin.PluginCase, recorded_plugin.answer, recorded_plugin.agrees),
    "volcano": _model(recorded_volcano.VolcanoCase, recorded_volcano.answer, recorded_volcano.agrees),
}
