"""Findings as SARIF 2.1.0, which code hosts show beside the lines of a change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from numaware import __version__
from numaware.diagnose.finding import CODES, Evidence, Finding, Severity
from numaware.diagnose.render.json import document_bytes
from numaware.diagnose.texts import Lang, finding_text, label, worded

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}


def render(findings: Sequence[Finding], lang: Lang = "en") -> bytes:
    """One run with the rules that were broken and each place where they were."""
    codes = sorted({finding.code for finding in findings})
    run = {
        "tool": {
            "driver": {
                "name": "numaware",
                "version": __version__,
                "rules": [
                    {
                        "id": code,
                        "shortDescription": {"text": code.replace("-", " ")},
                        "defaultConfiguration": {"level": _LEVELS[CODES[code]]},
                    }
                    for code in codes
                ],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, codes.index(finding.code), lang) for finding in findings],
    }
    document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return document_bytes(document)


def _result(finding: Finding, index: int, lang: Lang) -> dict[str, Any]:
    locations = [_location(one) for one in finding.evidence if one.file]
    words = finding_text(finding, lang)
    helps = (f"{label('help', lang)}: {fix}" for fix in words.fix)
    return {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": "\n\n".join((words.title, words.cause, *helps))},
        "locations": locations[:1],
        "relatedLocations": locations[1:],
        "properties": {"confidence": finding.confidence, "facts": worded(finding.facts, lang)},
    }


def _location(evidence: Evidence) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(evidence.file)}}
    if evidence.line:
        region: dict[str, Any] = {"startLine": evidence.line}
        if evidence.text:
            region["snippet"] = {"text": evidence.text}
        place["region"] = region
    return {"physicalLocation": place}


def _uri(file: str) -> str:
    """A relative path stays relative, so that the host finds it in the repository."""
    path = quote(file.removeprefix("./"), safe="/:-._~", errors="replace")
    return f"file://{path}" if path.startswith("/") else path.replace(":", "%3A")
