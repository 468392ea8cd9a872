from __future__ import annotations

import json
from pathlib import Path

import pytest

from numaware.cli import main
from support.made_machine import two_nodes, write


def test_a_bare_machine_is_in_order_as_far_as_can_be_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, two_nodes())
    assert main(["doctor", "--root", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "2 NUMA nodes, 4 cores, 8 CPUs" in shown
    assert "unknown" in shown.splitlines()[0]


def test_what_is_found_is_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, {**two_nodes(), "var/lib/kubelet/config.yaml": "cpuManagerPolicy: static\n"})
    assert main(["doctor", "--root", str(tmp_path), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert "cpu-manager-no-reserved-cpus" in [one["code"] for one in document["findings"]]
    assert main(["doctor", "--root", str(tmp_path), "--lang", "zh"]) == 1
    assert "kubelet 配置" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [("--root", "/nowhere"), ("--kubelet-version", "x")])
def test_bad_input_is_one_line(arguments: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1
