"""`numaware peers`: the rules of other schedulers, asked directly and held against what those schedulers did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from numaware.cli.recordings import RecordedFile
from numaware.cli.replay import Check, Difference, Model, SummaryAsJson, replay_files
from numaware.schedule.peers import recorded_kai, recorded_koordinator, recorded_plugin, recorded_volcano

app = App(name="peers", help="Ask the rules of other schedulers, and hold them against recordings.")


@app.command(usage="Usage: numaware peers replay [OPTIONS] PEER PATH...")
def replay(
    peer: Annotated[
        Literal["scheduler-plugins", "volcano", "kai", "koordinator"],
        Parameter(name="PEER", help="Whose cases they are."),
    ],
    /,
    *files: RecordedFile,
    check: Check = False,
    as_json: SummaryAsJson = False,
) -> int:
    """Run recorded cases on the rules of another scheduler, one per line of each file.

    Of scheduler-plugins the plugin NodeResourceTopologyMatch is known (Filter,
    Score, assumed pods), of Volcano the plugin numa-aware (nodes that fit, CPUs,
    scores), of KAI-Scheduler the plugin numa and the order of nodes, of
    Koordinator the plugin NodeNUMAResource without CPU binding. The answer is one
    line {"id", "expect"} per case, in the shape of a recorded one.

    With --check the answers are compared instead. Where the scheduler leaves its
    answer to chance any recorded one is right, and where it crashed any is.
    Koordinator's cases with CPU binding are counted and not compared.

    Exit code: 0 answered, or all agree; 1 some disagree; 2 a line cannot be
    read.

    For example:

      numaware peers replay kai cases.jsonl
      numaware peers replay scheduler-plugins --check vectors/*.jsonl.gz
    """
    return replay_files(_PEERS[peer], files, check=check, as_json=as_json)


def _model(
    case: type[Any],
    answer: Callable[[Any], object],
    agrees: Callable[[Any, Any], bool],
    leaves_out: Callable[[Any], bool] | None = None,
) -> Model:
    def differences(recorded: Any, reply: object) -> list[Difference] | None:
        if recorded.expect is None:
            return None
        return [] if agrees(recorded, reply) else [Difference(recorded.id, "", recorded.expect, reply)]

    return Model(
        "model",
        "cases",
        case,
        answer,
        lambda case, reply: {"id": case.id, "expect": reply},
        differences,
        leaves_out=leaves_out,
    )


_PEERS = {
    "scheduler-plugins": _model(recorded_plugin.PluginCase, recorded_plugin.answer, recorded_plugin.agrees),
    "kai": _model(recorded_kai.KaiCase, recorded_kai.answer, recorded_kai.agrees),
    "koordinator": _model(
        recorded_koordinator.KoordinatorCase,
        recorded_koordinator.answer,
        recorded_koordinator.agrees,
        recorded_koordinator.binds_cpus,
    ),
    "volcano": _model(recorded_volcano.VolcanoCase, recorded_volcano.answer, recorded_volcano.agrees),
}
