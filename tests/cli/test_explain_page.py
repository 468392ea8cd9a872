"""The page about `numaware explain` shows what the program prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from numaware.cli import main
from numaware.diagnose.texts import language

ENGLISH = language("en")

PAGE = (Path(__file__).parents[2] / "docs" / "explain.md").read_text(encoding="utf-8")


def test_the_example_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    files = re.findall(r"^```\w+\n(?:#|//) ([\w.-]+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in files] == ["pod.yaml", "kubelet-config.yaml", "cpu_manager_state"]
    for name, text in files:
        (tmp_path / name).write_text(text)
    ((command, shown),) = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    program, *arguments = shlex.split(command)
    assert program == "numaware"
    assert main(arguments) == 1
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize(
    "phrase",
    [
        "cannot be had on any set of NUMA nodes",
        "belong on",
        "but now fit only on",
        "even on an empty machine",
        "an init container of this pod had its own on",
        "are one group",
        "requests for one node already use",
        "cannot be whole cores",
    ],
)
def test_a_phrase_the_page_explains_is_one_the_program_uses(phrase: str) -> None:
    assert phrase in PAGE
    assert any(phrase in text for text in ENGLISH.LABELS.values())
