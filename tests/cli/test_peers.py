from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from numaware.cli import main

AMOUNTS = {"cpu": "2", "memory": "1Gi"}
POD = {"spec": {"containers": [{"name": "c", "resources": {"requests": AMOUNTS, "limits": AMOUNTS}}]}}
ZONE = {
    "name": "node-0",
    "type": "Node",
    "resources": [{"name": name, "available": "4Gi"} for name in ("cpu", "memory")],
}
ATTRIBUTE = {"name": "topologyManagerPolicy", "value": "single-numa-node"}
FILTER: dict[str, Any] = {
    "id": "f",
    "nrt": {"zones": [ZONE], "attributes": [ATTRIBUTE]},
    "node": {"allocatable": {"cpu": "4"}},
    "pod": POD,
}
VOLCANO = {"id": "v", "nodes": [{"name": "n", "numa": None}], "tasks": [{"name": "t", "pod": POD}]}

KAI: dict[str, Any] = {
    "id": "k",
    "nodes": [
        {
            "name": "n",
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"},
            "nrt": FILTER["nrt"],
            "pods": [
                {"pod": {**POD, "metadata": {"annotations": {"kai.scheduler/numa-placement-observed": "[]"}}}}
            ],
        }
    ],
    "tasks": [{"pod": POD}],
}
KOORDINATOR: dict[str, Any] = {
    "id": "o",
    "nodes": [
        {
            "name": "n",
            "labels": {"node.koordinator.sh/numa-topology-policy": "Restricted"},
            "allocatable": {"cpu": "8", "memory": "8Gi"},
            "zones": [
                {"name": f"node-{zone}", "allocatable": {"cpu": "4", "memory": "4Gi"}} for zone in (0, 1)
            ],
        }
    ],
    "tasks": [{"pod": POD}],
}


def write(path: Path, *records: object) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def with_expect(expect: object, **more: object) -> dict[str, Any]:
    return {**FILTER, "expect": expect, **more}


def test_answers_have_the_shape_of_a_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    score = {**FILTER, "id": "s", "strategy": {"type": "LeastNUMANodes"}}
    unknown = {**FILTER, "id": "u", "strategy": {"type": "Fastest"}}
    assert main(["peers", "replay", "scheduler-plugins", write(tmp_path / "a", FILTER, score, unknown)]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"id": "f", "expect": {"code": "Success"}},
        {"id": "s", "expect": {"score": 94}},
        {
            "id": "u",
            "expect": {
                "error": 'scoringStrategy.type: Invalid value: "Fastest": invalid ScoringStrategyType'
            },
        },
    ]
    assert main(["peers", "replay", "volcano", write(tmp_path / "b", VOLCANO)]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "id": "v",
        "expect": [{"nodes": {"n": {"fit": True}}, "scores": None, "bound": "n"}],
    }


def test_answers_of_kai_and_koordinator_have_that_shape_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["peers", "replay", "kai", write(tmp_path / "a", KAI)]) == 0
    # Three CPUs are left of the node, and the report says nothing of what zones could hold.
    assert json.loads(capsys.readouterr().out)["expect"] == [
        {"nodes": {"n": {"fit": False, "idle": True, "numa": 0, "score": 1019}}}
    ]
    assert main(["peers", "replay", "koordinator", write(tmp_path / "b", KOORDINATOR)]) == 0
    given = {"node": 0, "resources": {"cpu": "2", "memory": "1073741824"}}
    assert json.loads(capsys.readouterr().out)["expect"] == [
        {
            "nodes": {
                "n": {
                    "filter": {"code": "Success"},
                    "affinity": [0],
                    "score": (50 + 75) // 2,
                    "reserve": {"code": "Success", "numaNodeResources": [given]},
                }
            },
            "bound": "n",
        }
    ]


def test_cases_with_cpu_binding_are_counted_and_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bound = {**POD, "metadata": {"labels": {"koordinator.sh/qosClass": "LSR"}}}
    binding = {**KOORDINATOR, "tasks": [{"pod": bound}], "expect": []}
    assert main(["peers", "replay", "koordinator", "--check", write(tmp_path / "a", binding)]) == 2
    assert "no recorded result to compare with" in capsys.readouterr().err
    main(["peers", "replay", "koordinator", write(tmp_path / "b", KOORDINATOR)])
    right = {**KOORDINATOR, **json.loads(capsys.readouterr().out)}
    assert main(["peers", "replay", "koordinator", "--check", write(tmp_path / "c", binding, right)]) == 0
    assert "2 cases, 0 disagreements, 1 cases left out" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("record", "code"),
    [
        (with_expect({"code": "Success"}), 0),
        (with_expect({"code": "Unschedulable", "reasons": ["cannot align pod"]}), 1),
        (with_expect({"code": "Success", "reasons": ["why"]}), 1),
        (with_expect({"panic": "index out of range", "at": "somewhere"}), 0),
        (with_expect({"code": "Error", "outcomes": [{"code": "Error"}, {"code": "Success"}]}), 0),
        (with_expect({"score": 93}, strategy={"type": "LeastNUMANodes"}), 1),
        (with_expect({"score": 93, "order_sensitive": True}, strategy={"type": "LeastNUMANodes"}), 0),
        (with_expect({"score": 92, "order_sensitive": True}, strategy={"type": "LeastNUMANodes"}), 1),
    ],
)
def test_check_accepts_any_recorded_outcome_and_nothing_else(
    record: dict[str, Any], code: int, tmp_path: Path
) -> None:
    assert main(["peers", "replay", "scheduler-plugins", "--check", write(tmp_path / "a", record)]) == code


def test_check_accepts_any_outcome_of_a_volcano_cycle(tmp_path: Path) -> None:
    right = [{"nodes": {"n": {"fit": True}}, "scores": None, "bound": "n"}]
    luck = {**VOLCANO, "expect": [], "outcomes": [[], right]}
    assert main(["peers", "replay", "volcano", "--check", write(tmp_path / "a", luck)]) == 0
    wrong = {**VOLCANO, "expect": [], "outcomes": [[]]}
    assert main(["peers", "replay", "volcano", "--check", write(tmp_path / "a", wrong)]) == 1


def test_the_first_five_disagreements_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = [with_expect({"code": "Error"}, id=f"case-{number}") for number in range(7)]
    assert (
        main(["peers", "replay", "scheduler-plugins", "--check", write(tmp_path / "a", *records, FILTER)])
        == 1
    )
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"{tmp_path / 'a'}: 8 cases, 7 disagreements, 1 cases without a result"
    assert out[1:4] == ["  case-0", '    recorded  {"code":"Error"}', '    model     {"code":"Success"}']
    assert out[-1] == "  and 2 more"


def test_compressed_files_standard_input_and_several_files_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "a.gz"
    packed.write_bytes(gzip.compress(json.dumps(FILTER).encode()))
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(json.dumps({**FILTER, "id": "in"}).encode())))
    monkeypatch.setattr("sys.stdin", stdin)
    assert main(["peers", "replay", "scheduler-plugins", str(packed), "-"]) == 0
    assert [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()] == ["f", "in"]


NEGATIVE = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "-1"}}}]}}
MANY = {"spec": {"containers": [{"name": "c"}] * 251}}
CPU = [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("peer", "text", "says"),
    [
        ("scheduler-plugins", "junk", "malformed"),
        ("scheduler-plugins", "{}", "missing required field"),
        ("scheduler-plugins", json.dumps({**FILTER, "pod": NEGATIVE}), "below zero"),
        ("scheduler-plugins", json.dumps({**FILTER, "pod": MANY}), "more than 250 containers"),
        ("scheduler-plugins", '{"id":' * 100_000, "malformed|nested|Expected"),
        ("volcano", json.dumps(FILTER), "missing required field"),
        ("volcano", json.dumps({**VOLCANO, "nodes": [{"name": "n"}] * 2}), "a node is listed twice"),
        (
            "volcano",
            json.dumps({**VOLCANO, "nodes": [{"name": "n", "numa": {"cpus": [CPU, CPU]}}]}),
            "a CPU is listed twice",
        ),
        (
            "volcano",
            json.dumps({**VOLCANO, "nodes": [{"name": "n", "numa": {"cpus": [[0, 64, 0, 0]]}}]}),
            "63",
        ),
        (
            "volcano",
            json.dumps({**VOLCANO, "nodes": [{"name": "n", "numa": {"allocatable": "0-x"}}]}),
            "CPU list",
        ),
        ("kai", json.dumps({**KAI, "nodes": KAI["nodes"] * 2}), "a node is listed twice"),
        ("kai", json.dumps(KAI).replace('"[]"', '"[{]"'), "malformed"),
        ("kai", json.dumps(KAI).replace('"[]"', '"[{}]"'), "missing required field"),
        (
            "koordinator",
            json.dumps({**KOORDINATOR, "nodes": KOORDINATOR["nodes"] * 2}),
            "a node is listed twice",
        ),
        ("koordinator", json.dumps(KOORDINATOR).replace("node-0", "socket-0"), "no NUMA node"),
        ("koordinator", json.dumps(KOORDINATOR).replace("node-0", "node-1"), "listed twice"),
        ("koordinator", json.dumps(KOORDINATOR).replace('"8"', '"-8"'), "below zero"),
    ],
    ids=str,
)
def test_junk_is_one_line_and_exit_code_2(
    peer: str, text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "junk.jsonl"
    path.write_text(text)
    assert main(["peers", "replay", peer, "--check", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"numaware: {path}:1: ")
    assert captured.err.count("\n") == 1
    assert any(part in captured.err for part in says.split("|"))


def test_agreement_with_nothing_is_not_agreement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["peers", "replay", "volcano", "--check", write(tmp_path / "a", VOLCANO)]) == 2
    assert "no recorded result to compare with" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["nomad", "x"], ["volcano"], ["volcano", "missing.jsonl"]])
def test_wrong_arguments_are_one_line_and_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["peers", "replay", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1
