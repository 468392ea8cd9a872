"""`numaware twin`: the model of the kubelet, asked directly and held against what real kubelets did."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from cyclopts import App

from numaware.cli.machine_input import check_version
from numaware.cli.options import AsJson, optional
from numaware.cli.output import write_json
from numaware.cli.recordings import RecordedFile
from numaware.cli.replay import Check, Difference, Model, SummaryAsJson, replay_files
from numaware.cli.tables import aligned
from numaware.twin.agreement import differences
from numaware.twin.recording import Recording
from numaware.twin.recording import replay as ask_twin
from numaware.twin.rules import RULES, rules_for

app = App(name="twin", help="Ask the model of the kubelet, and hold it against recorded kubelets.")


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


@app.command
def rules(
    *,
    kubelet_version: Annotated[
        str, optional("Only the rules that a kubelet of this version follows, such as v1.31.4.")
    ] = "",
    as_json: AsJson = False,
) -> int:
    """Show the rules in which kubelets of different releases differ, and since when each holds.

    The twin is one kubelet that follows rules. What a release does otherwise
    than the one before it, in placements, refusals and state files, is a rule
    in this table; all else is the same from v1.20 to v1.37.

    Exit code: 0 shown, 2 no kubelet version.

    For example:

      numaware twin rules
      numaware twin rules --kubelet-version v1.31 --json
    """
    if kubelet_version:
        check_version("--kubelet-version", kubelet_version)
    followed = (
        msgspec.structs.asdict(rules_for(kubelet_version)) if kubelet_version else dict.fromkeys(RULES, True)
    )
    listed = {name: rule for name, rule in RULES.items() if followed[name]}
    if as_json:
        write_json(
            [
                {"rule": name, "since": rule.first, "until": rule.last or None, "says": rule.says}
                for name, rule in listed.items()
            ],
            indent=2,
        )
        return 0
    rows = [(name, rule.first, rule.last, rule.says) for name, rule in listed.items()]
    sys.stdout.writelines(aligned(rows, gap=2))
    return 0


def _differences(recording: Recording, answer: Mapping[str, Any]) -> list[Difference] | None:
    if recording.result is None:
        return None
    return [Difference(recording.scenario.id, *one) for one in differences(recording.result, answer)]


_TWIN = Model(
    "twin",
    "scenarios",
    Recording,
    lambda recording: ask_twin(recording.scenario),
    lambda recording, answer: {"id": recording.scenario.id, "result": answer},
    _differences,
    lambda recording: len(recording.result.comparable),
)
