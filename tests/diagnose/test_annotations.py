"""SARIF and GitHub annotations: what hosts of code read."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import unquote

import pytest

from numaware.diagnose.finding import CODES, Evidence, Finding, Subject, finding
from numaware.diagnose.render import github, sarif
from numaware.diagnose.texts import Lang
from support.choices import LANGUAGES

LEVELS = {"none", "note", "warning", "error"}
NASTY = "a%b\n::error::x\r\n\x1b[2J,:漢"


def made(file: str = "k8s/a b.yaml", line: int = 3) -> list[Finding]:
    facts = {"path": NASTY, "message": NASTY}
    places = [Evidence(file, line, "cpu: 1", "1"), Evidence(file, 0)]
    return [
        finding("manifest-invalid", Subject("Pod", name=NASTY), facts, places),
        finding("ignored-field", Subject("Pod", name="x"), facts, severity="info"),
        finding("manifest-invalid", Subject("Pod", name="y"), facts, places[:1]),
    ]


def checked_sarif(document: Any) -> Any:
    """The parts of the SARIF 2.1.0 schema that we write, as it demands them."""
    assert document["version"] == "2.1.0"
    assert document["$schema"].endswith("sarif-2.1.0.json")
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "numaware"
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(set(ids)) == len(ids)
    assert all(rule["defaultConfiguration"]["level"] in LEVELS for rule in driver["rules"])
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in LEVELS
        assert isinstance(result["message"]["text"], str)
        for location in [*result["locations"], *result["relatedLocations"]]:
            place = location["physicalLocation"]
            assert re.fullmatch(r"[\w./%~:-]+", place["artifactLocation"]["uri"], re.ASCII)
            assert place.get("region", {"startLine": 1})["startLine"] >= 1
    return run


@pytest.mark.parametrize("lang", LANGUAGES)
def test_sarif_is_as_its_schema_demands(lang: Lang) -> None:
    run = checked_sarif(json.loads(sarif.render(made(), lang)))
    assert [result["ruleId"] for result in run["results"]] == [
        "manifest-invalid",
        "ignored-field",
        "manifest-invalid",
    ]
    assert [result["level"] for result in run["results"]] == ["error", "note", "error"]
    (location,) = run["results"][0]["locations"]
    assert location["physicalLocation"]["region"]["startLine"] == 3
    assert unquote(location["physicalLocation"]["artifactLocation"]["uri"]) == "k8s/a b.yaml"


def test_sarif_of_nothing_is_a_run_without_results() -> None:
    assert checked_sarif(json.loads(sarif.render([])))["results"] == []


@pytest.mark.parametrize(("file", "uri"), [("/etc/k.yaml", "file:///etc/k.yaml"), ("./a:b", "a%3Ab")])
def test_a_path_becomes_a_uri(file: str, uri: str) -> None:
    run = checked_sarif(json.loads(sarif.render(made(file))))
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == uri


@pytest.mark.parametrize("lang", LANGUAGES)
def test_an_annotation_is_one_line_that_nothing_can_break_out_of(lang: Lang) -> None:
    lines = list(github.render(made(), lang))
    assert [line.split()[0] for line in lines] == ["::error", "::notice", "::error"]
    for line in lines:
        assert "\n" not in line
        assert "\r" not in line
        assert "\x1b" not in line
        assert not re.search(r"%(?!25|0A|3A|2C)", line)
    head = lines[0].split("::")[1]
    assert head.startswith("error file=k8s/a b.yaml,line=3,title=manifest-invalid%3A ")


def test_every_code_has_a_level() -> None:
    for severity in CODES.values():
        assert sarif._LEVELS[severity] in LEVELS
