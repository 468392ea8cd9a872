"""Checks as one screen, the worst first, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from numaware.diagnose.doctor.check import STATUSES, Check, Status
from numaware.diagnose.finding import Message, is_trouble
from numaware.diagnose.finding import worst_first as by_severity
from numaware.diagnose.render.json import document_bytes, to_builtins
from numaware.diagnose.texts import Lang, finding_text, label
from numaware.machine.drawing.lines import Line, Span, width, wrap
from numaware.machine.words import printable

_SIGNS: dict[Status, tuple[str, str]] = {
    "error": ("\N{BALLOT X}", "warning"),
    "warning": ("!", "warning"),
    "unknown": ("?", "quiet"),
    "ok": ("\N{CHECK MARK}", "bold"),
}
_LONGEST = 600


def page(name: str, checks: Sequence[Check], room: int, lang: Lang = "en") -> Iterator[Line]:
    """One line for each check, and under those that are not in order what was found, what was said, and what to do first."""
    counts = {status: sum(check.status == status for check in checks) for status in STATUSES}
    facts = {
        "node": name or label("doctor-this-node", lang),
        "errors": counts["error"],
        "warnings": counts["warning"],
        "unknown": counts["unknown"],
        "ok": counts["ok"],
    }
    for line in wrap(label(Message("doctor-title", facts), lang), room):
        yield (Span(line, "bold"),)
    column = max((width(_title(check, lang)) for check in checks), default=0)
    for check in checks:
        sign, style = _SIGNS[check.status]
        title = _title(check, lang)
        left = " " * (column - width(title))
        indent = column + 5
        seen = wrap(printable(label(check.seen, lang), _LONGEST), max(20, room - indent))
        yield (Span(f" {sign} ", style), Span(f"{title}{left}  "), Span(next(iter(seen), ""), "quiet"))
        for line in seen[1:]:
            yield (Span(" " * indent), Span(line, "quiet"))
        for finding in by_severity(check.findings):
            if finding.severity == "info":
                continue
            words = finding_text(finding, lang)
            yield from _hanging(f"[{finding.code}] {words.title}", indent, room, "warning")
            said = finding.facts.get("message")
            if isinstance(said, str) and said not in words.title:
                yield from _hanging(said, indent + 2, room, "quiet")
            for line in (words.fix[0].splitlines() if words.fix else ())[:12]:
                yield from _hanging(line, indent + 2, room, "")


def _hanging(text: str, indent: int, room: int, style: str) -> Iterator[Line]:
    inner = " " * (len(text) - len(text.lstrip(" ")))
    for line in wrap(printable(text.strip(), _LONGEST), max(20, room - indent - len(inner)), 2):
        yield (Span(f"{' ' * indent}{inner}"), Span(line, style))


def _title(check: Check, lang: Lang) -> str:
    return label(f"check-{check.name}", lang)


def document(name: str, checks: Sequence[Check], lang: Lang = "en") -> dict[str, Any]:
    """All checks, and all findings in the documented shape."""
    findings = by_severity(one for check in checks for one in check.findings)
    return {
        "node": name,
        "checks": [
            {
                "name": check.name,
                "status": check.status,
                "text": label(check.seen, lang),
                "findings": [one.code for one in check.findings],
            }
            for check in checks
        ],
        "findings": [to_builtins(one, lang) for one in findings],
        "summary": label("trouble" if is_trouble(findings) else "no-trouble", lang),
    }


def as_json(name: str, checks: Sequence[Check], lang: Lang = "en") -> bytes:
    return document_bytes(document(name, checks, lang))
