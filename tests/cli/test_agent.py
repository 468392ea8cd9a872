from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from numaware.cli import main
from numaware.machine import synthetic
from numaware.node import agent as node_agent
from numaware.node.affinity.in_cluster import SharedObjects
from numaware.node.agent import AgentOptions
from support import made_sysfs


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--no-publish", "--no-metrics"], "leave nothing to do"),
        (["--pods", "-1"], "outside 0 to 10000"),
        (["--no-publish", "--listen", "nowhere"], "is no address to listen on"),
        (["--no-publish", "--tls-cert", "x.pem"], "needs --tls-key"),
        (["--kubeconfig", "missing.conf"], "missing.conf: no such file"),
        (["--fingerprint", "some"], "with-exclusive-resources"),
        (["--affinity-source", "ebpf"], "use sockets, conntrack or the path of a file"),
        (["--affinity-budget", "0"], "outside 0.01 to 100 percent of a core"),
        (["--reconcile-time", "0"], "outside 1 to 3600 seconds"),
        # As openFuyao's plug-in is called; only the file is wrong.
        (
            ["-reconcile-time", "30", "-config-namespace", "tcs", "-kubeconfig", "missing.conf"],
            "missing.conf: no",
        ),
        (["-config-crdname=x", "-nri-socket=/n", "-kubeconfig=missing.conf"], "missing.conf: no such file"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["agent", "--root", str(tmp_path), *arguments]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1


def test_flags_of_openfuyaos_plug_in_mean_what_they_mean_there(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[AgentOptions] = []

    async def keep(options: AgentOptions) -> None:
        given.append(options)

    monkeypatch.setattr(node_agent, "run_agent", keep)
    flags = "-reconcile-time 45 -config-namespace=mine -config-crdname other -nri-socket /n -kubeconfig=/k"
    assert main(["agent", "--affinity", "observe", *flags.split()]) == 0
    (options,) = given
    assert options.kubeconfig == "/k"
    assert options.affinity is not None
    assert options.affinity.nri == "/n"
    assert options.affinity.cluster == SharedObjects(45, "mine", "other")


def test_a_token_file_without_a_token_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("two words\n")
    listen = ["--listen", "127.0.0.1:0", "--token-file", str(token)]
    assert main(["agent", "--root", str(tmp_path), "--no-publish", *listen]) == 2
    assert f"{token}: holds no token" in capsys.readouterr().err


@pytest.fixture
def short_root() -> Iterator[Path]:
    """A folder whose sockets have names of fewer than 108 characters, which is all that Unix sockets take."""
    with tempfile.TemporaryDirectory(prefix="n-") as folder:
        yield Path(folder)


def test_it_answers_until_it_is_told_to_stop_and_ends_well(short_root: Path) -> None:
    made_sysfs.write(short_root, synthetic.read("2x4"))
    command = [str(Path(sys.executable).with_name("numaware")), "agent", "--node=here", "--no-publish"]
    agent = subprocess.Popen(
        [*command, "--log=json", f"--root={short_root}", "--listen=127.0.0.1:0"],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert agent.stderr is not None
    try:
        line = agent.stderr.readline()
        assert '"event": "listening"' in line
        address = line.partition('"address": "')[2].partition('"')[0]
        with urllib.request.urlopen(f"{address}/metrics", timeout=60) as answer:  # noqa: S310 - our own address
            assert b'numa_nodes{node="here"} 2.0' in answer.read()
        agent.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 60
        while agent.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert agent.returncode == 0
    finally:
        agent.kill()
        agent.communicate()
