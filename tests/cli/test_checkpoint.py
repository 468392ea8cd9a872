from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest

from numaware.cli import main
from numaware.twin.state import cpu, device, memory
from support.old_state_files import cpu_state_v1

CPU = cpu.encode("static", "0,3-7", {"pod-b": {"main": "1-2"}, "pod-a": {"side": "8", "main": "9,11"}})
MEMORY = memory.encode(
    "Static",
    {
        0: memory.NodeEntry(
            1, {"memory": memory.MemoryTable(8 << 30, 1 << 30, 7 << 30, 3 << 30, 4 << 30)}, (0, 1)
        ),
        1: memory.NodeEntry(1, {"memory": memory.MemoryTable(8 << 30, 0, 8 << 30, 0, 8 << 30)}, (0, 1)),
    },
    {"pod-a": {"main": [memory.MemoryBlock((0, 1), "memory", 3 << 30)]}},
)
NICS = [f"0000:3b:00.{number}" for number in range(8)]
DEVICE = device.encode(
    [
        device.DeviceEntry("pod-a", "main", "x.io/nic", {0: NICS[:1], 1: NICS[1:2]}),
        device.DeviceEntry("pod-a", "main", "x.io/key", {-1: ["k"]}),
    ],
    {"x.io/nic": NICS, "x.io/key": ["k"]},
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three good files, one changed by hand and one that is something else."""
    for name, text in {
        "cpu": CPU,
        "memory": MEMORY,
        "device": DEVICE,
        "edited": CPU.replace("1-2", "1-3"),
        "other": "{}",
    }.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_verify_prints_one_line_per_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "verify", "cpu", "memory", "device"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(", checksum")[0] for line in lines] == [
        "cpu: valid cpu state v2",
        "memory: valid memory state v1",
        "device: valid device state v2",
    ]


def test_verify_exits_1_when_a_file_is_invalid(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "verify", "cpu", "edited", "other"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("edited: INVALID cpu state v2, checkpoint is corrupted: ")
    assert lines[2] == "other: INVALID, not a kubelet state file"


def test_verify_exits_2_when_a_file_cannot_be_read_and_still_judges_the_rest(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["checkpoint", "verify", "missing", "edited", ".", "cpu"]) == 2
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert err.splitlines() == [
        "numaware: missing: No such file or directory",
        "numaware: .: Is a directory",
    ]


def test_verify_prints_the_documented_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "verify", "--json", "cpu", "edited"]) == 1
    good, edited = map(json.loads, capsys.readouterr().out.splitlines())
    stored = json.loads(CPU)["checksum"]
    assert good == {
        "file": "cpu",
        "kind": "cpu",
        "format": "v2",
        "checksumStored": stored,
        "checksumComputed": stored,
        "valid": True,
        "problem": None,
        "note": None,
    }
    assert (edited["valid"], edited["checksumStored"]) == (False, stored)
    assert edited["checksumComputed"] != stored


def test_a_dash_is_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CPU.encode())))
    assert main(["checkpoint", "verify", "-"]) == 0
    assert capsys.readouterr().out.startswith("-: valid cpu state v2")


def test_verify_needs_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "verify"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_show_says_who_holds_which_cpus(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "show", "cpu"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "  CPU manager policy static; shared pool: 0,3-7 (6 CPUs)",
        "",
        "POD UID  CONTAINER  COUNT  CPUS",
        "pod-a    main       2      9,11",
        "pod-a    side       1      8",
        "pod-b    main       2      1-2",
        "",
    ]


def test_show_says_what_memory_is_left_and_who_holds_the_rest(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["checkpoint", "show", "memory"]) == 0
    assert capsys.readouterr().out.splitlines()[3:] == [
        "NUMA  TYPE    TOTAL  SYSTEM  ALLOCATABLE  RESERVED  FREE   GROUP",
        "0     memory  8 GiB  1 GiB   7 GiB        3 GiB     4 GiB  0,1",
        "1     memory  8 GiB  0 B     8 GiB        0 B       8 GiB  0,1",
        "",
        "POD UID  CONTAINER  TYPE    SIZE   NUMA",
        "pod-a    main       memory  3 GiB  0,1",
        "",
    ]


def test_show_says_who_holds_which_devices_of_which_node(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["checkpoint", "show", "device"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3:7] == [
        "POD UID  CONTAINER  RESOURCE  NUMA  DEVICES",
        "pod-a    main       x.io/key  none  k",
        "pod-a    main       x.io/nic  0     0000:3b:00.0",
        "pod-a    main       x.io/nic  1     0000:3b:00.1",
    ]
    assert lines[8:10] == ["RESOURCE  HEALTHY  DEVICES", "x.io/key  1        k"]


def test_show_says_what_the_plugin_told_the_runtime(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = (
        b"\n\x06\n\x01V\x12\x01a"  # envs
        b"\x12\x0c\n\x02/c\x12\x04/h/c\x18\x01"  # mounts
        b"\x1a\x0e\n\x04/dev\x12\x02/h\x1a\x02rw"  # devices
        b'"\x06\n\x01k\x12\x01v'  # annotations
        b"*\x07\n\x05x/y=z"  # cdi_devices
    )
    file = tmp_path / "answers"
    entries = [
        device.DeviceEntry("u", "a", "x.io/d", {0: ["a"]}, answer),
        device.DeviceEntry("u", "b", "x.io/d", {0: ["b"]}, b"\xff"),
    ]
    file.write_text(device.encode(entries, {}))
    assert main(["checkpoint", "show", str(file)]) == 0
    assert [line[30:] for line in capsys.readouterr().out.splitlines()[7:14]] == [
        "THE PLUGIN GAVE  WHAT",
        "variable         V=a",
        "device           /h as /dev (rw)",
        "mount            /h/c as /c (read-only)",
        "annotation       k=v",
        "CDI device       x/y=z",
        "unreadable       no answer of a plugin: ends in the middle of a number",
    ]
    assert main(["checkpoint", "show", "--json", str(file)]) == 0
    told, damaged = json.loads(capsys.readouterr().out)["answers"]
    assert told["envs"] == {"V": "a"}
    assert told["mounts"] == [{"containerPath": "/c", "hostPath": "/h/c", "readOnly": True}]
    assert told["devices"] == [{"containerPath": "/dev", "hostPath": "/h", "permissions": "rw"}]
    assert (told["annotations"], told["cdiDevices"]) == ({"k": "v"}, ["x/y=z"])
    assert "problem" in damaged


def test_show_does_not_invent_numa_nodes_for_the_old_device_layout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "old"
    old.write_text(device.encode([device.DeviceEntry("u", "c", "x.io/d", {0: ["a"]})], {}, form="v1"))
    assert main(["checkpoint", "show", str(old)]) == 0
    assert "u        c          x.io/d    unknown  a" in capsys.readouterr().out.splitlines()


def test_show_knows_the_old_cpu_layout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = tmp_path / "old"
    old.write_text(cpu_state_v1("static", "0", {"c0ffee": "1"}))
    assert main(["checkpoint", "show", "--json", str(old)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["format"] == "v1"
    assert shown["containers"] == [{"podUid": "(container id)", "container": "c0ffee", "cpus": "1"}]


def test_show_shows_a_corrupt_file_and_warns(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "show", "edited"]) == 1
    out = capsys.readouterr().out
    assert "INVALID cpu state v2, checkpoint is corrupted" in out
    assert "pod-b    main       3      1-3" in out


def test_show_refuses_what_is_no_state_file_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["checkpoint", "show", "other"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("numaware: other: not a kubelet state file (expected cpu_manager_state")


@pytest.mark.parametrize("name", ["cpu", "memory", "device"])
def test_show_json_holds_the_verdict_and_the_content(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["checkpoint", "show", "--json", name]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["kind"], shown["valid"]) == (name, True)
    assert {holder["podUid"] for holder in shown["containers"]} <= {"pod-a", "pod-b"}
    assert shown["containers"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_on_a_terminal_the_tables_fit_its_width(
    width: int, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["checkpoint", "show", "memory", "device"]) == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    tables = [line for line in lines if not line.startswith(("memory:", "device:"))]
    assert any("0000:3b:00.7" in line for line in tables)
    assert max(map(len, tables)) <= width


def test_what_a_file_holds_cannot_command_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad"
    bad.write_text(cpu.encode("\x1b[2Jstatic", "0", {"\x1b]0;owned\x07": {"c": "1"}}))
    assert main(["checkpoint", "show", str(bad)]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_help_teaches_where_the_files_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "verify", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint" in shown
    assert "numaware checkpoint verify -" in shown
