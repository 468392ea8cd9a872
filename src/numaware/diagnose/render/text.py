"""Findings as the best compilers tell their errors: what, where, the line, the arrow, the why, the help.

Lines of logs are a stranger's: whatever they hold, no terminal command gets through and no line is wider than the room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from numaware.diagnose.finding import Evidence, Finding, Message, Severity
from numaware.diagnose.texts import Lang, finding_text, label
from numaware.machine.drawing.lines import Line, Span, clip, width, wrap
from numaware.machine.words import printable

_MOST_EVIDENCE = 8
_LONGEST = 2_000
_STYLES: dict[Severity, str] = {"error": "warning", "warning": "warning", "info": "bold"}


def render(findings: Sequence[Finding], room: int, lang: Lang = "en") -> Iterator[Line]:
    """All findings, a blank line between them."""
    for place, one in enumerate(findings):
        if place:
            yield ()
        yield from lines(one, room, lang)


def page(
    findings: Sequence[Finding], files: Sequence[tuple[str, str]], room: int, lang: Lang = "en"
) -> Iterator[Line]:
    """A whole answer: trouble in full, what is fine in a line each, and what all of it comes to."""
    yield from body(findings, room, lang, lambda _: label("info", lang))
    errors, warnings = (sum(one.severity == name for one in findings) for name in ("error", "warning"))
    key = "diagnosed" if errors or warnings else "no-trouble"
    unknown = sum(kind == "unknown" for _, kind in files)
    facts = {"files": len(files), "errors": errors, "warnings": warnings}
    yield (Span(label(Message(key, facts), lang), "bold"),)
    if unknown:
        yield (Span(label(Message("unknown-files", {"count": unknown}), lang), "quiet"),)


def body(
    findings: Sequence[Finding], room: int, lang: Lang, head: Callable[[Finding], str]
) -> Iterator[Line]:
    """What a page says before its last line; `head` is what a remark begins with."""
    grave = [one for one in findings if one.severity != "info"]
    yield from render(grave, room, lang)
    for place, one in enumerate(one for one in findings if one.severity == "info"):
        if grave and not place:
            yield ()
        for line in wrap(_safe(f"{head(one)}{label('colon', lang)}{finding_text(one, lang).title}"), room, 2):
            yield (Span(line, "quiet"),)
    if findings:
        yield ()


def lines(finding: Finding, room: int, lang: Lang = "en") -> Iterator[Line]:
    """One finding, no line wider than `room`."""
    words = finding_text(finding, lang)
    head = f"{label(finding.severity, lang)}[{finding.code}]"
    style = _STYLES[finding.severity]
    for number, line in enumerate(wrap(_safe(f"{head} {words.title}"), room, 2)):
        rest = line.removeprefix(head) if number == 0 else line
        yield (Span(line[: len(line) - len(rest)], style), Span(rest, "bold"))
    yield from _evidence(finding.evidence, room, lang)
    sure = "" if finding.confidence == "certain" else f" ({label(finding.confidence, lang)})"
    colon = label("colon", lang)
    yield from _part(f"{label('why', lang)}{sure}{colon}", [words.cause], room)
    yield from _part(f"{label('help', lang)}{colon}", words.fix, room)


def _evidence(evidence: Sequence[Evidence], room: int, lang: Lang) -> Iterator[Line]:
    """The lines by file, each with an arrow under what matters in it."""
    shown = evidence[:_MOST_EVIDENCE]
    gutter = max((len(str(one.line)) for one in shown if one.line), default=1)
    file = ""
    for one in shown:
        if one.file != file:
            file = one.file
            place = f"{file}:{one.line}" if one.line else file
            yield (Span(" " * gutter + "--> ", "quiet"), Span(clip(_safe(place), room - gutter - 4)))
            yield (Span(" " * gutter + " |", "quiet"),)
        if one.text:
            yield from _snippet(one, gutter, room, lang)
    if len(evidence) > len(shown):
        more = label(Message("more-lines", {"count": len(evidence) - len(shown)}), lang)
        yield (Span(" " * gutter + " | ", "quiet"), Span(more, "quiet"))


def _snippet(one: Evidence, gutter: int, room: int, lang: Lang) -> Iterator[Line]:
    number = str(one.line) if one.line else ""
    text, start, length = _window(_safe(one.text), _safe(one.mark), room - gutter - 3)
    yield (Span(f"{number:>{gutter}} | ", "quiet"), Span(text))
    said = label(one.label, lang) if one.label else ""
    if not length and not said:
        return
    arrow = " " * start + "^" * max(length, 1)
    if said and start + length + 1 + width(said) > room - gutter - 3:
        yield (Span(" " * gutter + " | ", "quiet"), Span(arrow, "warning"))
        for line in wrap(said, room - gutter - 3):
            yield (Span(" " * gutter + " | ", "quiet"), Span(line, "warning"))
        return
    yield (Span(" " * gutter + " | ", "quiet"), Span(f"{arrow} {said}".rstrip(), "warning"))


def _window(text: str, mark: str, room: int) -> tuple[str, int, int]:
    """The part of a long line around what is marked, and where the mark is in it."""
    at = text.find(mark) if mark else -1
    if at < 0:
        return clip(text, room), 0, 0
    if width(text) <= room:
        return text, width(text[:at]), width(mark)
    lead = max(0, min(at - room // 4, len(text) - room + 1))
    shown = ("…" if lead else "") + text[lead + bool(lead) :]
    begin = width(text[lead:at])
    return clip(shown, room), begin, max(1, min(width(mark), room - begin - 1))


def _part(head: str, texts: Iterable[str], room: int) -> Iterator[Line]:
    """A heading and paragraphs hanging beside it; a text of several lines keeps its lines."""
    left = f"  = {head}"
    for text in texts:
        first = True
        for given in text.splitlines():
            # The indentation of YAML is part of it, and what goes on beyond its line stands deeper.
            indent = " " * (len(given) - len(given.lstrip(" ")))
            hang = 0 if first else 2
            for line in wrap(_safe(given.strip()), max(20, room - width(left) - len(indent)), hang):
                yield (Span(left if first else " " * width(left), "quiet"), Span(indent + line))
                first = False


def _safe(text: str) -> str:
    return printable(text, _LONGEST)
