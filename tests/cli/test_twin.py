from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from numaware.cli import main

SCENARIO: dict[str, Any] = {
    "id": "two-nodes",
    "kubernetesVersion": "v1.35.8",
    "machine": {
        "numa": [
            {
                "id": node,
                "memoryBytes": 8 << 30,
                "distances": [10, 20] if node == 0 else [20, 10],
                "cpus": [{"id": node * 4 + n, "core": n, "socket": node} for n in range(4)],
            }
            for node in (0, 1)
        ],
        "devices": {"vendor.example/gpu": [{"id": "a", "numa": [0]}, {"id": "b", "numa": [1]}]},
    },
    "config": {
        "topologyManagerPolicy": "restricted",
        "cpuManagerPolicy": "static",
        "kubeReserved": {"cpu": "1"},
    },
    "events": [
        {
            "op": "add",
            "pod": {
                "uid": "u",
                "name": "p",
                "containers": [
                    {
                        "name": "c",
                        "requests": {"cpu": "2", "memory": "1Gi"},
                        "limits": {"cpu": "2", "memory": "1Gi"},
                    }
                ],
            },
        },
        {"op": "remove", "uid": "u"},
    ],
}
Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes one JSON value per line to a file and gives its name."""
    monkeypatch.chdir(tmp_path)

    def lines(*values: object, name: str = "file.jsonl") -> str:
        Path(name).write_text("".join(f"{json.dumps(value)}\n" for value in values))
        return name

    return lines


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main(["twin", "replay", *arguments]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def recorded(capsys: pytest.CaptureFixture[str], write: Write) -> dict[str, Any]:
    """The scenario with the twin's own answer as the recorded one."""
    (line,) = answer(capsys, write({"scenario": SCENARIO}))
    return {"scenario": deepcopy(SCENARIO), "result": line["result"]}


def test_replay_prints_one_answer_per_scenario(capsys: pytest.CaptureFixture[str], write: Write) -> None:
    lines = answer(capsys, write({"scenario": SCENARIO}, {"scenario": {**SCENARIO, "id": "other"}}))
    assert [line["id"] for line in lines] == ["two-nodes", "other"]
    result = lines[0]["result"]
    assert result["start"]["reservedCPUs"] == "0"
    assert result["events"][0]["containers"][0]["cpuset"] == "1-2"
    assert result["events"][1]["defaultCpuSet"] == "0-7"


def test_packed_files_and_standard_input_are_read_like_plain_ones(
    capsys: pytest.CaptureFixture[str], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = write({"scenario": SCENARIO})
    data = Path(plain).read_bytes()
    Path("packed.jsonl.gz").write_bytes(gzip.compress(data))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
    expected = answer(capsys, plain)
    assert answer(capsys, "packed.jsonl.gz") == expected
    assert answer(capsys, "-") == expected


def test_blank_lines_and_unknown_fields_are_passed_over(
    capsys: pytest.CaptureFixture[str], write: Write
) -> None:
    name = write({"scenario": {**SCENARIO, "colour": "red"}, "remark": 1})
    Path(name).write_text("\n" + Path(name).read_text() + "\n\n")
    assert len(answer(capsys, name)) == 1


def test_check_counts_what_agrees(capsys: pytest.CaptureFixture[str], write: Write) -> None:
    line = recorded(capsys, write)
    assert main(["twin", "replay", "--check", write(line, line)]) == 0
    assert capsys.readouterr().out == "file.jsonl: 2 scenarios, 4 events, 0 disagreements\n"


def test_check_shows_the_first_five_disagreements_and_counts_the_rest(
    capsys: pytest.CaptureFixture[str], write: Write
) -> None:
    line = recorded(capsys, write)
    line["result"]["events"][0].update(admitted=False, reason="R", message="M", qos="Q")
    line["result"]["events"][1]["defaultCpuSet"] = "1"
    line["result"]["start"].update(reservedCPUs="7", defaultCpuSet="0")
    assert main(["twin", "replay", "--check", write(line)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("file.jsonl: 1 scenarios, 2 events, 7 disagreements in 1 scenarios\n")
    assert "  two-nodes /events/0/admitted\n    recorded  false\n    twin      true\n" in out
    assert out.count("recorded") == 5
    assert out.endswith("  and 2 more\n")


def test_a_long_text_is_shown_where_it_differs(capsys: pytest.CaptureFixture[str], write: Write) -> None:
    line = recorded(capsys, write)
    files = line["result"]["events"][0]["checkpoints"]
    files["cpu_manager_state"] = files["cpu_manager_state"].replace('"1-2"', '"1-3"') + " " * 300
    assert main(["twin", "replay", "--check", write(line)]) == 1
    recorded_line, twin_line = capsys.readouterr().out.splitlines()[2:]
    assert recorded_line.split("1-3")[0].removeprefix("    recorded  ") == (
        twin_line.split("1-2")[0].removeprefix("    twin      ")
    )
    assert len(recorded_line) < 200


def test_what_the_kubelet_leaves_to_chance_does_not_count(
    capsys: pytest.CaptureFixture[str], write: Write
) -> None:
    line = recorded(capsys, write)
    line["result"]["events"][0]["containers"][0]["cpuset"] = "2-3"
    line["result"]["events"][1]["defaultCpuSet"] = "0"
    line["result"] |= {"unstable": ["/events/0/containers"], "compareEvents": 1}
    assert main(["twin", "replay", "--check", write(line)]) == 0
    assert "1 events" in capsys.readouterr().out


def test_check_in_json_is_one_object(capsys: pytest.CaptureFixture[str], write: Write) -> None:
    line = recorded(capsys, write)
    line["result"]["events"][0]["reason"] = "R"
    write(line, {"scenario": SCENARIO}, name="wrong.jsonl")
    assert main(["twin", "replay", "--check", "--json", "wrong.jsonl"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "files": [
            {
                "file": "wrong.jsonl",
                "scenarios": 2,
                "events": 2,
                "unrecorded": 1,
                "disagreeingScenarios": 1,
                "disagreements": 1,
                "first": [{"id": "two-nodes", "path": "/events/0/reason", "recorded": "R", "twin": ""}],
            }
        ]
    }


def test_agreement_with_nothing_is_not_agreement(capsys: pytest.CaptureFixture[str], write: Write) -> None:
    assert main(["twin", "replay", "--check", write({"scenario": SCENARIO})]) == 2
    assert "no recorded result to compare with" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"rubbish", "JSON is malformed"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"scenario": {"id": "x"}}', "missing required field `machine`"),
        (b'{"result": {"start": {"x": ' + b"[" * 100_000, "nested too deeply"),
        (b'\xff\xfe{"scenario": 1}', "JSON is malformed"),
    ],
)
def test_a_line_that_is_no_scenario_is_named(
    line: bytes, problem: str, capsys: pytest.CaptureFixture[str], write: Write
) -> None:
    name = write({"scenario": SCENARIO})
    with Path(name).open("ab") as file:
        file.write(line)
    assert main(["twin", "replay", name]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("numaware: file.jsonl:2: ")
    assert problem in captured.err
    assert len(captured.err.splitlines()) == 1
    assert len(captured.out.splitlines()) == 1


def test_a_damaged_archive_is_told(capsys: pytest.CaptureFixture[str], write: Write) -> None:
    packed = gzip.compress(Path(write({"scenario": SCENARIO})).read_bytes())
    Path("half.gz").write_bytes(packed[: len(packed) // 2])
    assert main(["twin", "replay", "half.gz"]) == 2
    assert capsys.readouterr().err.startswith("numaware: half.gz: damaged gzip data")


def test_an_endless_line_is_not_swallowed(
    capsys: pytest.CaptureFixture[str], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numaware.cli.recordings.MAX_TEXT_BYTES", 256)
    assert main(["twin", "replay", write({"scenario": SCENARIO})]) == 2
    assert "a line of more than" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str], write: Write) -> None:
    assert main(["twin", "replay", "nowhere.jsonl"]) == 2
    assert capsys.readouterr().err == "numaware: nowhere.jsonl: No such file or directory\n"


Change = Callable[[dict[str, Any]], object]
CHANGES: dict[str, tuple[Change, str]] = {
    "no NUMA nodes": (lambda s: s["machine"].update(numa=[]), "the machine has no NUMA nodes"),
    "a NUMA node twice": (lambda s: s["machine"]["numa"][1].update(id=0), "NUMA node 0 is listed twice"),
    "a negative NUMA node": (lambda s: s["machine"]["numa"][0].update(id=-1), "NUMA node -1 is outside"),
    "no CPUs": (lambda s: [node.update(cpus=[]) for node in s["machine"]["numa"]], "the machine has no CPUs"),
    "a CPU twice": (lambda s: s["machine"]["numa"][1]["cpus"][0].update(id=0), "CPU 0 is listed twice"),
    "an overflowing CPU": (
        lambda s: s["machine"]["numa"][0]["cpus"][0].update(id=1 << 40),
        "CPU 1099511627776",
    ),
    "a negative core": (lambda s: s["machine"]["numa"][0]["cpus"][0].update(core=-2), "is on core -2"),
    "negative memory": (lambda s: s["machine"]["numa"][0].update(memoryBytes=-1), "has -1 bytes of memory"),
    "too much memory": (lambda s: s["machine"]["numa"][0].update(memoryBytes=1 << 63), "bytes of memory"),
    "memory beyond counting": (
        lambda s: [node.update(memoryBytes=(1 << 63) - 1) for node in s["machine"]["numa"]],
        "all NUMA nodes together",
    ),
    "negative huge pages": (
        lambda s: s["machine"]["numa"][0].update(hugepages={"hugepages-2Mi": -1}),
        "has -1 bytes of hugepages-2Mi",
    ),
    "a negative distance": (lambda s: s["machine"]["numa"][0].update(distances=[-1, 1]), "a distance below"),
    "a device on no node": (
        lambda s: s["machine"]["devices"]["vendor.example/gpu"][0].update(numa=[-1]),
        "is on NUMA node -1, which is no NUMA node's number",
    ),
    "a device twice": (
        lambda s: s["machine"]["devices"]["vendor.example/gpu"][0].update(id="b"),
        "device 'b' of vendor.example/gpu is listed twice",
    ),
    "devices called cpu": (lambda s: s["machine"]["devices"].update(cpu=[]), "'cpu' is no name for devices"),
    "too many NUMA nodes": (
        lambda s: s["machine"].update(
            numa=[{"id": n, "cpus": [{"id": n, "core": n, "socket": n}]} for n in range(40)]
        ),
        "40 NUMA nodes are more than",
    ),
    "a negative reservation": (lambda s: s["config"].update(kubeReserved={"cpu": "-1"}), "may be negative"),
    "an amount that is none": (lambda s: s["config"].update(kubeReserved={"cpu": "x"}), "is not a quantity"),
    "a threshold that is none": (
        lambda s: s["config"].update(evictionHard={"memory.available": "1e999%"}),
        "is not a percentage",
    ),
    "a CPU list that is none": (lambda s: s["config"].update(reservedSystemCPUs="x"), "is not a CPU list"),
    "a version that is none": (lambda s: s.update(kubernetesVersion="latest"), "is not a kubelet version"),
    "a negative request": (
        lambda s: s["events"][0]["pod"]["containers"][0]["requests"].update(cpu="-2"),
        "may be negative",
    ),
    "a request above its limit": (
        lambda s: s["events"][0]["pod"]["containers"][0]["requests"].update(cpu="3"),
        "requests more cpu than its limit",
    ),
    "an overflowing request": (
        lambda s: s["events"][0]["pod"]["containers"][0]["requests"].update(cpu="99999999999999999999"),
        "more than 2^63-1",
    ),
    "an event of no kind": (lambda s: s["events"][1].update(op="explode"), "unknown event 'explode'"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_cannot_be_is_refused_and_gets_no_verdict(
    name: str, capsys: pytest.CaptureFixture[str], write: Write
) -> None:
    change, problem = CHANGES[name]
    scenario = deepcopy(SCENARIO)
    change(scenario)
    assert main(["twin", "replay", write({"scenario": scenario})]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("numaware: file.jsonl:1: ")
    assert problem in captured.err
    assert len(captured.err.splitlines()) == 1


def test_reserved_cpus_that_are_not_online_stop_the_kubelet_in_its_own_words(
    capsys: pytest.CaptureFixture[str], write: Write
) -> None:
    scenario = deepcopy(SCENARIO)
    scenario["config"]["reservedSystemCPUs"] = "0,9"
    (line,) = answer(capsys, write({"scenario": scenario}))
    assert line["result"]["start"]["error"] == "reserved-cpus: 0,9 is not a subset of online-cpus: 0-7"
    assert line["result"]["events"] == []


def test_many_numa_nodes_are_fine_where_nobody_asks_for_hints(
    capsys: pytest.CaptureFixture[str], write: Write
) -> None:
    scenario = deepcopy(SCENARIO)
    scenario["machine"] = {
        "numa": [{"id": n, "cpus": [{"id": n, "core": n, "socket": n}]} for n in range(64)],
        "devices": {"vendor.example/gpu": [{"id": f"{n:02}", "numa": [n]} for n in range(64)]},
    }
    scenario["config"]["topologyManagerPolicy"] = "none"
    (line,) = answer(capsys, write({"scenario": scenario}))
    assert line["result"]["events"][0]["admitted"] is True


def test_a_bar_on_the_terminal_leaves_the_answers_to_the_file(
    capsys: pytest.CaptureFixture[str], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard output goes to a file here, the bar to the terminal."""
    name = write({"scenario": SCENARIO})
    expected = answer(capsys, name)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert answer(capsys, name) == expected


def test_a_file_is_told_of_before_the_next_one_is_read(
    capsys: pytest.CaptureFixture[str], write: Write
) -> None:
    good = write(recorded(capsys, write), name="good.jsonl")
    bad = write("rubbish", name="bad.jsonl")
    assert main(["twin", "replay", "--check", good, bad]) == 2
    assert capsys.readouterr().out == "good.jsonl: 1 scenarios, 2 events, 0 disagreements\n"


def test_a_bar_is_drawn_for_the_one_who_waits(
    capsys: pytest.CaptureFixture[str], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = recorded(capsys, write)
    name = write(line)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["twin", "replay", "--check", name, name]) == 0
    captured = capsys.readouterr()
    assert "replaying" in captured.err
    assert captured.out.count("0 disagreements") == 2


def test_the_rules_are_listed_with_the_releases_they_hold_in(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["twin", "rules", "--json"]) == 0
    everything = {one["rule"]: one for one in json.loads(capsys.readouterr().out)}
    assert everything["keeps_pending"]["since"] == "v1.22.1"
    assert everything["keeps_pending"]["until"] == "to v1.31"
    assert main(["twin", "rules", "--kubelet-version", "v1.36.1"]) == 0
    out = capsys.readouterr().out
    assert "device_nodes" in out
    assert "held_first" not in out
    assert main(["twin", "rules", "--kubelet-version", "soon"]) == 2
