"""What the guide shows of lint is what lint says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from numaware.cli import main
from numaware.diagnose.finding import CODES

PAGE = (Path(__file__).parents[2] / "docs" / "lint.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for kind, text in BLOCKS:
        name = re.match(r"# ([\w-]+\.yaml)\n", text)
        if kind == "yaml" and name:
            (tmp_path / name[1]).write_text(text)
    return tmp_path


@pytest.mark.usefixtures("files")
def test_the_example_can_be_repeated(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    (shown,) = (text for kind, text in BLOCKS if kind == "console")
    command, _, answer = shown.partition("\n")
    assert main(command.removeprefix("$ numaware ").split()) == 1
    assert capsys.readouterr().out == answer


def test_the_pod_that_never_fits_is_told_as_shown(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = (files / "pod.yaml").read_text().replace("7500m", '"20"').replace("trainer", "large")
    (files / "large.yaml").write_text(text)
    assert main(["lint", "large.yaml", "--against", "cluster.yaml"]) == 1
    (shown,) = (text for kind, text in BLOCKS if kind == "text")
    answer = capsys.readouterr().out.splitlines()
    assert [line for line in shown.splitlines() if line not in answer] == []


def test_every_code_of_the_page_is_one() -> None:
    named = re.findall(r"^\| `([a-z-]+)`(?:, `([a-z-]+)`)? \|", PAGE, re.MULTILINE)
    assert named
    assert {code for pair in named for code in pair if code} <= set(CODES)
