"""`numaware affinity` on a file as the agent writes it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from numaware.affinity.plan import Member, Rules, Zone
from numaware.affinity.report import Move
from numaware.cli import main
from numaware.machine.cpuset import CpuSet
from numaware.node.affinity.intent import Intent
from numaware.node.affinity.migration import Migrated
from numaware.node.affinity.status import AffinityStatus, Talk, encode
from support.made_cgroups import add_container, add_pod

GIB = 1 << 30
STATUS = AffinityStatus(
    node="n1",
    mode="observe",
    at=1_000_000_000,
    runtime="",
    zones=tuple(
        Zone(number, CpuSet(range(8 * number, 8 * number + 8)), 8 * GIB, {0: 10, 1: 21}) for number in (0, 1)
    ),
    members=(
        Member("u1", "shop", "cache-0", 500),
        Member("u2", "shop", "web-0", 700),
        Member("u3", "shop", "batch-0", 700, barred="pinned", zones=(1,)),
    ),
    talk=(Talk("u1", "u2", 40_000_000),),
    rules=Rules(),
    migrated={"u1": Migrated(0, 512 << 20, 0, 5120, 740)},
    moves=(Move("u1", "shop", "cache-0", 999_999_000, 0, 20_000_000, 40_000_000, 20_000_000, 0, 5_000_000),),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "affinity.json"
    path.write_bytes(encode(STATUS))
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["affinity", *arguments])
    shown = capsys.readouterr()
    return code, shown.out + shown.err


def test_show_tells_who_talks_and_what_was_moved(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    code, shown = run(capsys, "show", "--status", str(file))
    assert code == 0
    assert "observes only" in shown
    assert "shop/cache-0" in shown
    assert "moved to NUMA 0" in shown
    assert "the agent may have stopped" in shown
    assert (
        "512 MiB of its memory brought to NUMA 0 in 5.1 s, 0 B could not be; no step took longer than 740"
        in shown
    )


def test_plan_has_an_answer_for_every_pod_in_both_languages(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    code, shown = run(capsys, "plan", "--status", str(file))
    assert code == 1
    assert "move to NUMA 0" in shown
    assert "the kubelet has given it CPUs" in shown
    code, shown = run(capsys, "plan", "--status", str(file), "--lang", "zh")
    assert "移到 NUMA 0" in shown


def test_plan_as_json_has_the_bytes_before_and_after(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    code, shown = run(capsys, "plan", "--status", str(file), "--json")
    planned = json.loads(shown)
    assert code == 1
    assert planned["crossNumaBytesPerSecond"] == {"now": 20_000_000, "planned": 0}
    assert {pod["pod"]: pod["answer"] for pod in planned["pods"]} == {
        "shop/batch-0": "pinned",
        "shop/cache-0": "move",
        "shop/web-0": "move",
    }


def test_a_plan_that_would_save_too_little_moves_nobody(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    code, shown = run(capsys, "plan", "--status", str(file), "--least", "100000000")
    assert code == 0
    assert "no gain expected" in shown


UID = "1f1e2d3c-1111-2222-3333-444455556666"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A pod with one process, on CPUs 0-3 and NUMA node 0."""
    root = tmp_path / "node"
    add_pod(root, "v2-cgroupfs", UID, "shop", "cache-0", {"anon": {0: 10}})
    add_container(root, "v2-cgroupfs", UID, "a" * 64, "", "")
    (root / "proc/42").mkdir(parents=True)
    (root / "proc/42/status").write_text("Name:\tx\nCpus_allowed_list:\t0-3\nMems_allowed_list:\t0\n")
    return root


def test_verify_reads_every_process_and_tells_what_moves_have_come_to(
    capsys: pytest.CaptureFixture[str], file: Path, node: Path
) -> None:
    arguments = ("verify", "--status", str(file), "--root", str(node))

    def intend(*intents: Intent) -> None:
        members = (Member(UID, "shop", "cache-0", 500),)
        file.write_bytes(encode(msgspec.structs.replace(STATUS, members=members, intents={UID: intents})))

    intend(Intent(CpuSet.parse("0-7"), CpuSet.parse("0")))
    code, shown = run(capsys, *arguments)
    assert code == 0
    assert shown == (
        "1 processes of 1 pods, all where they should be\n"
        "shop/cache-0 on NUMA 0: 19.1 MiB/s to and from other NUMA nodes before the move, 0 B/s predicted, 4.8 MiB/s measured\n"
    )
    intend(Intent(CpuSet.parse("8-15")))
    code, shown = run(capsys, *arguments)
    assert (code, "process 42 may use CPUs 0-3, should be 8-15" in shown) == (1, True)
    intend(Intent(CpuSet.parse("0-7"), CpuSet.parse("1")))
    code, shown = run(capsys, *arguments, "--lang", "zh")
    assert (code, "进程 42 可用 NUMA 0 的内存，应为 1" in shown) == (1, True)
    code, shown = run(capsys, *arguments, "--json")
    told = json.loads(shown)
    assert (code, told["processes"], told["pods"]) == (1, 1, 1)
    assert told["problems"] == [
        {"problem": "memory", "pod": "shop/cache-0", "pid": 42, "allowed": "0", "wanted": "1"}
    ]
    assert [move["name"] for move in told["moves"]] == ["cache-0"]


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b"\xff\xfe", b'{"version": 9'])
def test_what_no_agent_wrote_is_one_clear_error(
    capsys: pytest.CaptureFixture[str], file: Path, damage: bytes
) -> None:
    file.write_bytes(damage)
    code, shown = run(capsys, "show", "--status", str(file))
    assert code == 2
    assert shown.count("\n") == 1
    assert "not written by an agent" in shown


def test_cpus_that_are_none_are_one_clear_error(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    status = msgspec.structs.replace(STATUS, intents={"u1": (Intent(CpuSet((0, 1))),)})
    file.write_bytes(encode(status).replace(b'"cpus":"0-1"', b'"cpus":"x-3"'))
    code, shown = run(capsys, "verify", "--status", str(file))
    assert (code, shown.count("\n")) == (2, 1)
    assert "not written by an agent" in shown


@pytest.mark.parametrize("words", [("--fill", "-5"), ("--fill", "101"), ("--least", "-1")])
def test_numbers_that_make_no_plan_are_refused(
    capsys: pytest.CaptureFixture[str], file: Path, words: tuple[str, str]
) -> None:
    code, shown = run(capsys, "plan", "--status", str(file), *words)
    assert (code, shown.count("\n")) == (2, 1)
    assert f"{words[0]}: {words[1]} is " in shown


def test_no_file_names_the_command_that_makes_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, shown = run(capsys, "show", "--status", str(tmp_path / "none"))
    assert code == 2
    assert "numaware agent --affinity observe" in shown


def test_a_file_of_another_version_is_refused(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_bytes(encode(msgspec.structs.replace(STATUS, version=9)))
    code, shown = run(capsys, "plan", "--status", str(file))
    assert (code, "version 9" in shown) == (2, True)
