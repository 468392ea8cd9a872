"""The rules of other schedulers answer every recorded case as those schedulers' own code did.

The recordings are described in the README files beside them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from numaware.cli import main
from numaware.machine import node_topology
from numaware.machine.quantity import Quantity
from numaware.schedule.peers.nrt import read
from numaware.schedule.peers.recorded_plugin import PluginCase
from numaware.schedule.peers.recorded_pod import pod
from numaware.schedule.peers.requests import effective_request
from numaware.workload.qos import qos_class

FOLDER = Path(__file__).parents[1] / "vectors"
RECORDINGS = [
    (peer, path)
    for peer in ("scheduler-plugins", "volcano", "kai", "koordinator")
    for path in sorted((FOLDER / peer).glob("*.jsonl.gz"))
]
PLUGIN = [path for peer, path in RECORDINGS if peer == "scheduler-plugins"]


def lines(path: Path) -> list[bytes]:
    with gzip.open(path) as stream:
        return stream.readlines()


def name(path: Path) -> str:
    return path.name.removesuffix(".jsonl.gz")


def test_all_files_that_the_readmes_name_are_here() -> None:
    assert {name(path) for _, path in RECORDINGS} >= {
        "filter",
        "score",
        "assumed",
        "numaaware",
        "numa",
        "nodenumaresource",
    }


@pytest.mark.parametrize(("peer", "recording"), RECORDINGS, ids=[name(path) for _, path in RECORDINGS])
def test_the_rule_agrees_with_every_recorded_case(
    peer: str, recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["peers", "replay", peer, "--check", "--json", str(recording)])
    captured = capsys.readouterr()
    assert captured.err == ""
    (tally,) = json.loads(captured.out)["files"]
    assert tally["first"] == []
    assert (tally["disagreements"], tally["unrecorded"], code) == (0, 0, 0)
    assert tally["cases"] == len(lines(recording))
    # Koordinator's CPU binding of pods is left out, and nothing else is.
    assert tally.get("leftOut", 0) == (619 if peer == "koordinator" else 0)


def cases(recording: Path) -> Iterator[tuple[PluginCase, dict[str, Any]]]:
    for line in lines(recording):
        yield msgspec.json.decode(line, type=PluginCase), json.loads(line).get("trace") or {}


@pytest.mark.parametrize("recording", PLUGIN, ids=name)
def test_the_plugin_read_the_same_settings_class_and_request(recording: Path) -> None:
    """Agreement is not luck: what the plugin's functions yielded on the way is the same, too."""
    compared = 0
    for case, trace in cases(recording):
        asking = pod(case.pod)
        assert qos_class(asking) == trace.get("qos", qos_class(asking)), case.id
        if "effective" in trace:
            expected = {key: Quantity.parse(text).nano for key, text in trace["effective"].items()}
            assert dict(effective_request(asking)) == expected, case.id
            compared += 1
        if "conf" in trace and case.nrt is not None:
            manager = read(node_topology.read(case.nrt).sound()).manager
            assert trace["conf"] == {
                "policy": manager.policy,
                "scope": manager.scope,
                "maxNUMANodes": manager.max_nodes,
            }, case.id
            compared += 1
    assert compared > len(lines(recording))


@pytest.mark.parametrize(
    ("peer", "file", "key"),
    [
        ("scheduler-plugins", "filter", "code"),
        ("volcano", "numaaware", "nodes"),
        ("kai", "numa", "bound"),
        ("koordinator", "nodenumaresource", "bound"),
    ],
)
def test_a_wrong_recording_is_noticed(
    peer: str, file: str, key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Koordinator's first case is one with CPU binding.
    changed = json.loads(lines(FOLDER / peer / f"{file}.jsonl.gz")[peer == "koordinator"])
    expect = changed["expect"]
    (expect if isinstance(expect, dict) else expect[0])[key] = "Moonshine"
    path = tmp_path / "changed.jsonl"
    path.write_text(json.dumps(changed))
    assert main(["peers", "replay", peer, "--check", str(path)]) == 1
    out = capsys.readouterr().out
    assert "1 cases, 1 disagreements" in out
    assert changed["id"] in out
    assert "Moonshine" in out
