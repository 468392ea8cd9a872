"""`numaware kubelet` and `numaware policy` on files: plans for people and programs, and mistakes in one line."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from numaware.cli import main
from numaware.cli.live_input import run_until_signal
from numaware.cli.policy import page
from numaware.kube import kubelet_policies
from numaware.machine import synthetic
from numaware.node.kubelet_switch import journal
from numaware.node.kubelet_switch.place import Place
from numaware.node.kubelet_switch.steps import Backup, Ready, Start, Stop, Write
from numaware.twin.state import cpu
from support import made_sysfs

CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: none  # for now
systemReserved: {cpu: "1"}
"""


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """The files of a node that kubeadm has set up."""
    made_sysfs.write(tmp_path, synthetic.read("2s x 4c x 2t mem=32Gi"))
    folder = tmp_path / "var/lib/kubelet"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(CONFIG, encoding="utf-8")
    (folder / "kubeadm-flags.env").write_text("", encoding="utf-8")
    (folder / cpu.FILE).write_text(cpu.encode("none", "", {}), encoding="utf-8")
    return tmp_path


def planned(node: Path, *words: str) -> list[str]:
    return ["kubelet", "plan", f"--root={node}", f"--journal={node / 'journal'}", *words]


def test_a_plan_for_people_names_every_step_and_why(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(planned(node, "--set=cpuManagerPolicy=static")) == 0
    told = capsys.readouterr().out
    assert told.startswith("Kubelet v1.35.0 of kubeadm: /var/lib/kubelet/config.yaml\n")
    assert "+cpuManagerPolicy: static # for now" in told
    assert "remove /var/lib/kubelet/cpu_manager_state" in told
    assert 'configured policy "static" differs from state checkpoint policy "none"' in told
    assert "which pods run here is not known" in told
    assert not (node / "journal").exists()


def test_a_plan_for_programs_has_the_same(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(planned(node, "--set=cpuManagerPolicy=static", "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["kind"], told["possible"], told["refusals"]) == ("kubeadm", True, [])
    assert [step["step"] for step in told["steps"]] == ["stop", "backup", "write", "remove", "start", "ready"]
    assert told["changes"] == [{"field": "cpuManagerPolicy", "before": "none", "after": "static"}]


def test_a_plan_in_chinese(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(planned(node, "--set=cpuManagerPolicy=static", "--lang=zh")) == 0
    assert "停止 kubelet" in capsys.readouterr().out


def test_what_the_kubelet_would_refuse_is_exit_code_1(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(planned(node, "--set=topologyManagerPolicy=strict")) == 1
    assert "The kubelet would not start: " in capsys.readouterr().out


def test_a_file_says_what_is_wanted(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = node / "wanted.yaml"
    wanted.write_text("topologyManagerPolicy: restricted\n", encoding="utf-8")
    assert main(planned(node, f"--to={wanted}")) == 0
    assert "+topologyManagerPolicy: restricted" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["apply", "rollback"])
def test_nothing_happens_without_a_yes(verb: str, node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["kubelet", verb, f"--root={node}", f"--journal={node / 'journal'}"]
    words += ["--set=topologyManagerPolicy=restricted"] if verb == "apply" else []
    assert main(words) == (1 if verb == "apply" else 2)
    assert ("Nothing was done" if verb == "apply" else "no switch to go back from") in capsys.readouterr().err
    assert (node / "var/lib/kubelet/config.yaml").read_text(encoding="utf-8") == CONFIG


@pytest.fixture
def systemctl(node: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A made systemctl: answers `show` with the lines that are given; its folder has a file `active` while the unit runs."""
    folder = node / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")

    def make(lines: str) -> Path:
        tool = folder / "systemctl"
        cases = f'start) touch "{folder}/active";; stop) rm -f "{folder}/active";; show) {lines};;'
        tool.write_text(f'#!/bin/sh\ncase "$1" in {cases} esac\n', encoding="utf-8")
        tool.chmod(0o755)
        (folder / "active").touch()
        return folder

    return make


def applied(node: Path, *words: str) -> list[str]:
    """The same node by names that need no other root."""
    config = node / "var/lib/kubelet/config.yaml"
    config.write_text(f"{CONFIG}healthzPort: 0\n", encoding="utf-8")
    places = [f"--config={config}", f"--kubelet-root={config.parent}", f"--machine-root={node}"]
    wish = ["--set=topologyManagerPolicy=restricted", "--yes", *words]
    return ["kubelet", "apply", *places, f"--journal={node / 'journal'}", *wish]


def test_a_reader_who_goes_away_stops_no_switch(node: Path, systemctl: Callable[[str], Path]) -> None:
    """`| head`, or a terminal that was closed: the kubelet is not left stopped for that."""
    folder = systemctl(f"test -e {node}/tools/active && echo ActiveState=active || echo ActiveState=inactive")
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "numaware", *applied(node)]
    done = subprocess.run(command, stdout=writer, stderr=writer, check=False, timeout=60)
    os.close(writer)
    story = journal.latest(node / "journal")
    assert story is not None
    assert (done.returncode, story.ending) == (0, "applied")
    assert (folder / "active").exists()
    assert "restricted" in (node / "var/lib/kubelet/config.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("lines", "words", "told"),
    [
        (
            "echo LoadState=not-found",
            ["--unit=kublet"],
            "kublet: systemd has no such unit that it could start",
        ),
        ("echo no bus; exit 1", [], "kubelet: systemd does not tell how it stands: systemctl show"),
        ("echo ActiveState=active", ["--timeout=-1"], "--timeout: -1 is outside 0 to 86400 seconds"),
    ],
)
def test_what_could_not_be_put_back_is_not_begun(
    lines: str,
    words: list[str],
    told: str,
    node: Path,
    systemctl: Callable[[str], Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = systemctl(lines)
    assert main(applied(node, *words)) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1
    assert journal.latest(node / "journal") is None
    assert (folder / "active").exists()


@pytest.mark.parametrize("words", [["rollback"], ["apply", "--resume"]], ids=str)
@pytest.mark.parametrize("mark", ["done", "applied"])
def test_what_was_written_down_under_another_root_is_left_to_who_began_it(
    mark: journal.Mark, words: list[str], node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An agent in a container sees the node below a folder; on the node itself its copies would not be found."""
    aside, file = "/node/journal/000001/backup", "/var/lib/kubelet/config.yaml"
    done = (
        Stop("kubelet"),
        Backup((file,), aside),
        Write(file, aside, b"{}"),
        Start("kubelet"),
        Ready("kubelet"),
    )
    book = journal.Journal(node / "journal/000001")
    book.open(journal.Recorded(done, Place("kubeadm", "kubelet", file, "configuration")))
    book.note(mark, 2)
    before = (book.folder / "journal.jsonl").read_bytes()
    assert main(["kubelet", *words, f"--root={node}", f"--journal={node / 'journal'}", "--yes"]) == 2
    said = capsys.readouterr().err
    assert (aside in said) == (mark == "done" or words == ["rollback"])
    assert said.count("\n") == 1
    assert (book.folder / "journal.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "nothing is asked for"),
        (["--set=x"], "is not FIELD=VALUE"),
        (["--set=cpuManagerPolicy=static", "--kubelet-version=seven"], "seven"),
        (["--to=/nowhere"], "/nowhere"),
        (["--set=cpuManagerPolicy=static", "--config=/nowhere.yaml"], "cannot be read"),
        (["--unset=cpuManagerPolicy.x"], "has no members"),
        (["--set=cpuManagerPolicy=static", "--drain-timeout=nan"], "--drain-timeout: nan is outside 0 to"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    words: list[str], told: str, node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(planned(node, *words)) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("verb", ["plan", "apply"])
def test_what_is_wanted_is_read_before_anybody_is_asked(
    verb: str, node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not after an API server has been waited for."""
    places = [f"--root={node}", f"--journal={node / 'journal'}", "--kubeconfig=/nowhere.conf"]
    assert main(["kubelet", verb, *places, "--set=x"]) == 2
    assert "is not FIELD=VALUE" in capsys.readouterr().err
    assert not (node / "journal").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["set", "p"], "names no setting"),
        (
            ["set", "p", "--set=cpuManagerPolicy=static", "--where-missing=x", "--kubeconfig=missing.conf"],
            "is not FIELD=VALUE",
        ),
        (
            ["set", "p", "--set=cpuManagerPolicy=static", "--max-unavailable=0", "--kubeconfig=missing.conf"],
            "--max-unavailable: 0 is less than 1",
        ),
        (["set", "p", "--set=cpuManagerPolicy=static", "--nodes=gpu"], "is not LABEL=VALUE"),
        (
            ["set", "p", "--set=cpuManagerPolicy=static", "--nodes=a=b,c=d"],
            "is not LABEL=VALUE (once for each",
        ),
        (["status", "--kubeconfig=missing.conf"], "missing.conf: no such file"),
    ],
)
def test_a_mistake_with_a_pool_is_one_line(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["policy", *words]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1


def test_an_order_says_for_which_nodes_it_is_and_whether_anybody_has_answered() -> None:
    spec = {"nodeSelector": {"zone": "a", "pool": "gpu"}, "kubelet": {"topologyManagerPolicy": "restricted"}}
    content: dict[str, Any] = {"metadata": {"name": "gpu"}, "spec": spec}
    told = page(kubelet_policies.decode(json.dumps(content).encode()))
    assert told == (
        "gpu: Apply, nodes pool=gpu, zone=a, at most 1 away\n"
        '  topologyManagerPolicy: "restricted"\n'
        "  no agent of such a node has answered yet\n"
    )
    content |= {"status": {"nodes": {"n1": {"phase": "Pending"}}}, "spec": {}}
    told = page(kubelet_policies.decode(json.dumps(content).encode()))
    assert told.startswith("gpu: Apply, nodes all, ")
    assert "n1" in told
    assert "answered yet" not in told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_terminal_that_goes_away_interrupts_as_a_person_does(number: signal.Signals) -> None:
    put_back: list[str] = []

    async def work() -> None:
        try:
            signal.raise_signal(number)
            await asyncio.sleep(60)
        finally:
            put_back.append("all")

    assert run_until_signal(work()) is None
    assert put_back == ["all"]


def test_what_was_started_with_nohup_goes_on_without_its_terminal() -> None:
    async def work() -> str:
        signal.raise_signal(signal.SIGHUP)
        await asyncio.sleep(0)
        return "the end"

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run_until_signal(work()) == "the end"
    finally:
        signal.signal(signal.SIGHUP, before)


def test_who_interrupts_twice_is_told_why_it_goes_on() -> None:
    told: list[str] = []
    heard = asyncio.Event()

    def again() -> None:
        told.append("still")
        if len(told) == 2:
            heard.set()

    async def work() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(60)
        finally:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
            async with asyncio.timeout(60):
                await heard.wait()

    assert run_until_signal(work(), again=again) is None
    assert told == ["still", "still"]
