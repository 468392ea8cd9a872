"""Findings as the documented JSON, for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from numaware.diagnose.finding import Finding, is_trouble
from numaware.diagnose.texts import Lang, finding_text, label, worded


def to_builtins(finding: Finding, lang: Lang = "en") -> dict[str, Any]:
    """One finding in the documented shape."""
    words = finding_text(finding, lang)
    return {
        "code": finding.code,
        "severity": finding.severity,
        "subject": msgspec.to_builtins(finding.subject),
        "title": words.title,
        "cause": words.cause,
        "fix": list(words.fix),
        "evidence": [{"file": one.file, "line": one.line, "text": one.text} for one in finding.evidence],
        "confidence": finding.confidence,
        "facts": worded(finding.facts, lang),
    }


def render(findings: Sequence[Finding], files: Iterable[tuple[str, str]], lang: Lang = "en") -> bytes:
    """The whole answer: what was found, what each file was taken for, and one sentence on all of it."""
    document = {
        "findings": [to_builtins(one, lang) for one in findings],
        "files": [{"file": file, "kind": kind} for file, kind in files],
        "summary": label("trouble" if is_trouble(findings) else "no-trouble", lang),
    }
    return document_bytes(document)


def document_bytes(document: Any) -> bytes:
    """A document of any renderer, as it is written to a file or a terminal."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
