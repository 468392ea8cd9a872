"""`numaware twin`: the model of the kubelet, asked directly and held against what real kubelets did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cyclopts import App

from numaware.cli.recordings import RecordedFile
from numaware.cli.replay import Check, Difference, Model, SummaryAsJson, replay_files
from numaware.twin.agreement import differences
from numaware.twin.recording import Recording
from numaware.twin.recording import replay as ask_twin

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
