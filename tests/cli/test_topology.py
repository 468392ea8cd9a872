from __future__ import annotations

import io
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from defusedxml.ElementTree import fromstring

from numaware.cli import main
from numaware.machine import codec, synthetic
from numaware.machine.closeness import with_links
from numaware.machine.topology import Machine
from support.invented_machines import with_node

SERVER = synthetic.read("2s x 1n x 4c x 2t +gpu@0,1 mem=64Gi")
NUMACTL = """available: 2 nodes (0-1)
node 0 cpus: 0 1
node 0 size: 1024 MB
node 0 free: 1 MB
node 1 cpus: 2 3
node 1 size: 1024 MB
node 1 free: 1 MB
node distances:
node   0   1
  0:  10  21
  1:  21  10
"""


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


def saved(folder: Path, machine: Machine = SERVER, name: str = "machine.json") -> str:
    path = folder / name
    path.write_bytes(codec.encode(machine))
    return str(path)


def captured(folder: Path) -> Path:
    """A small machine as a folder of /sys and /proc files."""
    root = folder / "root"
    files = {
        "proc/cpuinfo": "processor : 0\nmodel name : Example CPU\n\nprocessor : 1\nmodel name : Example CPU\n",
        "sys/devices/system/cpu/online": "0-1\n",
        "sys/devices/system/cpu/possible": "0-1\n",
        "sys/devices/system/node/online": "0\n",
        "sys/devices/system/node/node0/cpulist": "0-1\n",
        "sys/devices/system/node/node0/distance": "10\n",
        "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:  8388608 kB\n",
    }
    for number in (0, 1):
        files[f"sys/devices/system/cpu/cpu{number}/topology/core_id"] = f"{number}\n"
        files[f"sys/devices/system/cpu/cpu{number}/topology/physical_package_id"] = "0\n"
        files[f"sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list"] = f"{number}\n"
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def test_a_saved_topology_is_shown_as_the_same_json(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["topology", "show", "--root", saved(tmp_path), "--format", "json"]) == 0
    shown = capfdbinary.readouterr().out
    # How close devices are follows from the rest, and is told.
    assert shown == codec.encode(with_links(SERVER))
    again = tmp_path / "again.json"
    again.write_bytes(shown)
    assert main(["topology", "show", "--root", str(again), "--format", "json"]) == 0
    assert capfdbinary.readouterr().out == shown
    assert main(["topology", "diff", saved(tmp_path), str(again)]) == 0


def test_a_folder_is_shown_as_text(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "show", "--root", str(captured(tmp_path))]) == 0
    text = capfd.readouterr().out
    assert "1 package · 1 NUMA node · 2 cores · 2 CPUs · 8 GiB" in text
    assert "\x1b" not in text


def test_this_machine_is_shown_by_default(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["topology", "show", "--json"]) == 0
    shown = codec.decode(capfdbinary.readouterr().out)
    assert len(shown.online) == os.cpu_count()


def test_the_width_follows_columns(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["topology", "show", "--root", saved(tmp_path)]) == 0
    assert max(map(len, capfd.readouterr().out.splitlines())) == 60


def test_an_svg_goes_to_a_file(tmp_path: Path) -> None:
    out = tmp_path / "machine.svg"
    assert main(["topology", "show", "--root", saved(tmp_path), "--format", "svg", "-o", str(out)]) == 0
    assert fromstring(out.read_bytes()).tag.endswith("svg")


def test_text_goes_to_a_file_without_colour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = tmp_path / "machine.txt"
    assert main(["topology", "show", "--root", saved(tmp_path), "-o", str(out)]) == 0
    assert "NUMA 1" in (text := out.read_text())
    assert "\x1b" not in text


def test_another_tool_adds_what_it_knows(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    links = tmp_path / "topo.txt"
    links.write_text(
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\t0-3\t0\nGPU1\tSYS\t X \t4-7\t1\n"
    )
    arguments = ["topology", "show", "--root", saved(tmp_path), "--with", f"nvidia-smi={links}", "--json"]
    assert main(arguments) == 0
    assert codec.decode(capfdbinary.readouterr().out).links[0].type == "SYS"


def test_a_tools_output_is_read_from_stdin(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(NUMACTL.encode())))
    assert main(["topology", "read", "--from", "numactl", "-", "--json"]) == 0
    assert [node.id for node in codec.decode(capfdbinary.readouterr().out).numa] == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["show", "--root", "{}/missing"], "missing: no such file"),
        (["show", "--root", "{}/junk"], "junk: "),
        (["show", "--root", "{}/empty"], "empty: holds no captured machine"),
        (["show", "--root", "{}/bad.json"], "bad.json: not a topology in JSON"),
        (["show", "--root", "{}/m.json", "-o", "{}"], ": is a folder (give the name of a file to write)"),
        (
            ["show", "--root", "{}/m.json", "-o", "{}/no/where"],
            "where: cannot be written: No such file or directory",
        ),
        (["show", "--root", "{}/m.json", "--with", "nvidia-smi"], "not of the form KIND=FILE"),
        (["show", "--root", "{}/m.json", "--with", "x={}/junk"], "no reader for 'x'"),
        (["show", "--root", "{}/m.json", "--format", "pdf"], "pdf"),
        (["read", "--from", "numactl", "{}/junk"], "junk: "),
        (["read", "--from", "numactl", "{}/missing"], "missing: No such file or directory"),
        (["read", "--from", "numactl", "{}/empty"], "empty: Is a directory"),
        (["read", "{}/junk"], "--from"),
        (["diff", "{}/m.json"], "B"),
        (["diff", "{}/m.json", "{}/junk"], "junk: "),
        (["capture", "-o", "{}"], ": is a folder"),
        (["capture", "-o", "{}/x.tar.gz", "--root", "{}/empty"], "empty: holds no captured machine"),
        (["capture"], "output"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], problem: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path, name="m.json")
    (tmp_path / "junk").write_bytes(b"\x00junk" * 300)
    (tmp_path / "bad.json").write_text('{"cpus": 3}')
    (tmp_path / "empty").mkdir()
    assert main(["topology", *(argument.replace("{}", str(tmp_path)) for argument in arguments)]) == 2
    output, errors = capfd.readouterr()
    assert output == ""
    assert errors.startswith("numaware: ")
    assert errors.count("\n") == 1
    assert problem in errors
    assert {path.name for path in tmp_path.iterdir()} == {"m.json", "junk", "bad.json", "empty"}


def test_like_machines_differ_in_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["topology", "diff", saved(tmp_path), saved(tmp_path, name="other.json")]) == 0
    assert capfd.readouterr().out == "alike\n"


def test_differences_are_grouped_and_give_exit_code_1(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = saved(tmp_path, with_node(SERVER, 1, memory_bytes=60 << 30), "other.json")
    assert main(["topology", "diff", saved(tmp_path), other]) == 1
    assert capfd.readouterr().out.splitlines()[2:] == [
        "",
        "NUMA nodes",
        "  NUMA node 1: memory 64 GiB vs 60 GiB",
    ]


def test_differences_for_programs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    other = saved(tmp_path, with_node(SERVER, 1, memory_bytes=60 << 30), "other.json")
    assert main(["topology", "diff", saved(tmp_path), other, "--json"]) == 1
    document = json.loads(capfd.readouterr().out)
    assert document["same"] is False
    assert document["differences"] == [
        {
            "area": "NUMA nodes",
            "subject": "NUMA node 1",
            "what": "memory",
            "a": "64 GiB",
            "b": "60 GiB",
            "text": "NUMA node 1: memory 64 GiB vs 60 GiB",
        }
    ]


def test_a_capture_shows_the_machine_it_was_made_of(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    root, archive = captured(tmp_path), tmp_path / "machine.tar.gz"
    assert main(["topology", "capture", "--root", str(root), "-o", str(archive)]) == 0
    shown = []
    for source in (root, archive):
        capfdbinary.readouterr()
        assert main(["topology", "show", "--root", str(source), "--json"]) == 0
        shown.append(capfdbinary.readouterr().out)
    assert shown[0] == shown[1]


def test_this_machine_is_captured_faithfully(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    archive = tmp_path / "machine.tar.gz"
    assert main(["topology", "capture", "-o", str(archive), "--with-identity"]) == 0
    assert "files and links saved" in capfd.readouterr().err
    assert main(["topology", "diff", "/", str(archive)]) == 0


def test_two_captures_are_the_same_bytes(tmp_path: Path) -> None:
    root = captured(tmp_path)
    archives = [tmp_path / "1.tar.gz", tmp_path / "2.tar.gz"]
    for archive in archives:
        main(["topology", "capture", "--root", str(root), "-o", str(archive)])
    assert archives[0].read_bytes() == archives[1].read_bytes()


def test_an_interrupted_capture_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("numaware.machine.capture.write", interrupt)
    root = captured(tmp_path)
    assert main(["topology", "capture", "--root", str(root), "-o", str(tmp_path / "x.tar.gz")]) == 130
    assert [path.name for path in tmp_path.iterdir()] == ["root"]


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "x.tar.gz"
    old.write_bytes(b"old")

    def full(_entries: object, stream: io.BufferedWriter) -> None:
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numaware.machine.capture.write", full)
    assert main(["topology", "capture", "--root", str(captured(tmp_path)), "-o", str(old)]) == 2
    assert old.read_bytes() == b"old"
    assert {path.name for path in tmp_path.iterdir()} == {"root", "x.tar.gz"}


def test_a_written_file_has_the_usual_rights_and_a_link_is_kept(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    link.symlink_to(real)
    assert main(["topology", "show", "--root", saved(tmp_path), "--json", "-o", str(link)]) == 0
    assert link.is_symlink()
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(real.stat().st_mode) == 0o666 & ~umask


def test_a_device_is_written_as_it_is(tmp_path: Path) -> None:
    assert main(["topology", "show", "--root", saved(tmp_path), "--json", "-o", "/dev/null"]) == 0
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    big = saved(tmp_path, synthetic.read("8s x 8n x 16c"))
    command = [sys.executable, "-m", "numaware", "topology", "show", "--json", "--root", big]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait() == 0
    assert errors == b""


def test_ctrl_c_ends_without_a_word_of_python() -> None:
    command = [sys.executable, "-m", "numaware", "topology", "read", "--from", "numactl", "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        # Longer than a pipe holds: when all of it is taken, the program is reading.
        process.stdin.write(b"\n" * 200_000)
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130
    assert errors == b""
