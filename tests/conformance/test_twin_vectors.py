"""The twin answers every recorded kubelet scenario as that kubelet did, through the command anybody can run.

The recordings are described in tests/vectors/README.md; agreement per group is printed at the end of the test run.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from numaware.cli import main

FOLDER = Path(__file__).parents[1] / "vectors" / "kubelet"
RECORDINGS = sorted(FOLDER.glob("*.jsonl.gz"))


def lines(path: Path) -> list[bytes]:
    with gzip.open(path) as stream:
        return stream.readlines()


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_the_twin_agrees_with_every_recorded_decision(
    recording: Path, capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> None:
    code = main(["twin", "replay", "--check", "--json", str(recording)])
    captured = capsys.readouterr()
    assert captured.err == ""
    (tally,) = json.loads(captured.out)["files"]
    total, wrong = tally["scenarios"], tally["disagreeingScenarios"]
    group = recording.name.removesuffix(".jsonl.gz")
    record_property("kubelet vectors", f"{group} {total - wrong}/{total}")
    assert tally["first"] == []
    assert (tally["disagreements"], wrong, tally["unrecorded"], code) == (0, 0, 0, 0)
    assert total == len(lines(recording))


def test_all_groups_that_the_readme_names_are_here() -> None:
    named = {"cpu", "memory", "device", "topology", "pods", "seed-boxes", "edge", "shapes"} | {
        "legacy-v1.20",
        "legacy-v1.27",
        "pod-level-v1.36",
        "pod-level-v1.37",
        *(f"versions-v1.{minor}" for minor in range(22, 38) if minor not in (27, 35)),
    }
    assert named <= {path.name.removesuffix(".jsonl.gz") for path in RECORDINGS}


def test_a_wrong_recording_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The comparison above can fail: one CPU more in one recorded answer is found and shown."""
    changed = json.loads(lines(FOLDER / "edge.jsonl.gz")[0])
    changed["result"]["events"][0]["containers"][0]["cpuset"] = "1"
    path = tmp_path / "changed.jsonl"
    path.write_text(json.dumps(changed))
    assert main(["twin", "replay", "--check", str(path)]) == 1
    out = capsys.readouterr().out
    assert "1 disagreements in 1 scenarios" in out
    assert f"{changed['scenario']['id']} /events/0/containers/0/cpuset" in out
    assert '    recorded  "1"\n' in out
