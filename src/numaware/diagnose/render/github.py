"""Findings as workflow commands of GitHub Actions: annotations at the lines of a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numaware.diagnose.finding import Finding, Severity
from numaware.diagnose.texts import Lang, finding_text, label
from numaware.machine.words import printable

_COMMANDS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "notice"}
_LONGEST = 4_000


def render(findings: Sequence[Finding], lang: Lang = "en") -> Iterator[str]:
    """One line for each finding, at its first place."""
    for finding in findings:
        words = finding_text(finding, lang)
        place = next((one for one in finding.evidence if one.file), None)
        properties = {"title": f"{finding.code}: {words.title}"}
        if place is not None:
            properties = {
                "file": place.file,
                **({"line": str(place.line)} if place.line else {}),
                **properties,
            }
        listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
        text = "\n".join((words.cause, *(f"{label('help', lang)}: {fix}" for fix in words.fix)))
        yield f"::{_COMMANDS[finding.severity]} {listed}::{_data(text)}"


def _data(text: str) -> str:
    """What the runner reads up to the end of the line: its own escapes for what would end it."""
    lines = [printable(line, _LONGEST) for line in text.splitlines()]
    return "%0A".join(line.replace("%", "%25") for line in lines)


def _property(text: str) -> str:
    return printable(text, 300).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
