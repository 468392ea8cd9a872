"""`numaware peers`: the rules of other schedulers, asked directly and held against what those schedulers did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from numaware.cli.recordings import RecordedFile
from numaware.cli.replay import Check, Difference, Model, SummaryAsJson, replay_files
from numaware.schedule.peers import recorded_plugin, recorded_volcano

app = App(name="peers", help="Ask the rules of other schedulers, and hold them against recordings.")


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
    def differences(recorded: Any, reply: object) -> list[Difference] | None:
        if recorded.expect is None:
            return None
        return [] if agrees(recorded, reply) else [Difference(recorded.id, "", recorded.expect, reply)]

    return Model(
        "model", "cases", case, answer, lambda case, reply: {"id": case.id, "expect": reply}, differences
    )


_PEERS = {
    "scheduler-plugins": _model(recorded_plugin.PluginCase, recorded_plugin.answer, recorded_plugin.agrees),
    "volcano": _model(recorded_volcano.VolcanoCase, recorded_volcano.answer, recorded_volcano.agrees),
}
