"""Findings as one HTML file that needs nothing but itself, to attach to a ticket.

Equal findings give equal bytes. Lines of logs and names in them are a stranger's: everything is escaped, and the page
forbids itself to load or run anything.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape

from numaware import __version__
from numaware.diagnose.finding import Evidence, Finding, Message
from numaware.diagnose.texts import Lang, finding_text, label, worded
from numaware.machine.drawing.palette import TOKENS, variables
from numaware.machine.words import printable

_LONGEST = 2_000
_MOST_FILES = 500
_MOST_EVIDENCE = 20
# What findings need beyond the colours of drawings. name: (light, dark)
_SEVERITY = {
    "error": ("#9c1b15", "#ff9f96"),
    "warning": ("#7f4a00", "#f3bb5c"),
    "info": ("#00625a", "#5cd6c6"),
}
_RULES = """
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--text);font:14px/1.5 -apple-system,BlinkMacSystemFont,"Segoe UI",Roboto,
"Noto Sans","Helvetica Neue",Arial,"PingFang SC","Microsoft YaHei","Noto Sans CJK SC",sans-serif;overflow-wrap:anywhere}
header,main,footer{max-width:1100px;margin:0 auto;padding:0 16px}
header{padding-top:16px}
h1{font-size:20px;margin:0 0 4px}
h2{font-size:16px;margin:0 0 8px}
h3{font-size:13px;margin:12px 0 4px;color:var(--text-2)}
p{margin:0 0 8px}
.quiet{color:var(--text-2)}
article,.panel{background:var(--surface);border:1px solid var(--line);border-left:4px solid var(--tone,var(--line));
border-radius:6px;padding:12px 16px;margin:0 0 16px}
.error{--tone:var(--error)}.warning{--tone:var(--warning)}.info{--tone:var(--info)}
.tag{color:var(--tone);font-weight:600}
code,pre{font:12px/1.5 ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace}
pre{background:var(--surface-2);border-radius:4px;padding:8px 12px;margin:0 0 8px;white-space:pre-wrap}
ol{margin:0;padding-left:20px}
mark{background:var(--split-bg);color:var(--split);font-weight:600;border-radius:2px}
a{color:inherit}
.number{color:var(--text-3);user-select:none}
.label{color:var(--tone);display:block;padding-left:2em}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:4px 8px;border-top:1px solid var(--line)}
th{font-weight:600;width:1%;white-space:nowrap}
summary{cursor:pointer;color:var(--text-2)}
footer{padding-bottom:24px;color:var(--text-2)}
@media print{article,.panel{break-inside:avoid}details{display:none}body{background:none}}
"""


def render(findings: Sequence[Finding], files: Sequence[tuple[str, str]], lang: Lang = "en") -> bytes:
    """The report: what all of it comes to, each finding with its evidence, and the files it rests on."""
    sheet = _sheet()
    counts = {
        "files": len(files),
        "errors": sum(one.severity == "error" for one in findings),
        "warnings": sum(one.severity == "warning" for one in findings),
    }
    trouble = counts["errors"] or counts["warnings"]
    title = label(Message("diagnosed" if trouble else "no-trouble", counts), lang)
    body = "".join(_finding(place, one, lang) for place, one in enumerate(findings))
    return (
        f'<!doctype html>\n<html lang="{lang}"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"style-src 'sha256-{_digest(sheet)}'\">"
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>numaware: {_safe(title)}</title><style>{sheet}</style></head>\n<body>"
        f"<header><h1>{_safe(title)}</h1>{_contents(findings, lang)}</header>\n<main>{body}{_files(files, lang)}</main>\n"
        f"<footer>numaware {__version__}</footer></body></html>\n"
    ).encode()


def _sheet() -> str:
    themes = [variables(theme, {**TOKENS, **_SEVERITY}) for theme in (0, 1)]
    return (
        f":root{{color-scheme:light dark;{themes[0]}}}"
        f"@media (prefers-color-scheme:dark){{:root{{{themes[1]}}}}}"
        f"@media print{{:root{{color-scheme:light;{themes[0]}}}}}" + "".join(_RULES.splitlines())
    )


def _digest(code: str) -> str:
    return base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()


def _contents(findings: Sequence[Finding], lang: Lang) -> str:
    items = "".join(
        f'<li class="{one.severity}"><span class="tag">{_safe(label(one.severity, lang))}</span> '
        f'<a href="#f{place}">{_safe(finding_text(one, lang).title)}</a></li>'
        for place, one in enumerate(findings)
        if one.severity != "info"
    )
    return f"<ol>{items}</ol><p></p>" if items else ""


def _finding(place: int, finding: Finding, lang: Lang) -> str:
    words = finding_text(finding, lang)
    sure = "" if finding.confidence == "certain" else f" ({_safe(label(finding.confidence, lang))})"
    fixes = "".join(f"<li>{_fix(fix)}</li>" for fix in words.fix)
    return (
        f'<article class="{finding.severity}" id="f{place}"><h2><span class="tag">{_safe(label(finding.severity, lang))}'
        f"[<code>{_safe(finding.code)}</code>]</span> {_safe(words.title)}</h2>"
        f"{_evidence(finding.evidence, lang)}"
        f"<h3>{_safe(label('why', lang))}{sure}</h3><p>{_safe(words.cause)}</p>"
        + (f"<h3>{_safe(label('help', lang))}</h3><ol>{fixes}</ol>" if fixes else "")
        + _facts(finding, lang)
        + "</article>"
    )


def _fix(fix: str) -> str:
    """A sentence; lines after its first are to be pasted."""
    first, _, rest = fix.partition("\n")
    pasted = "\n".join(_safe(line) for line in rest.splitlines())
    return _safe(first) + (f"<pre>{pasted}</pre>" if rest else "")


def _evidence(evidence: Sequence[Evidence], lang: Lang) -> str:
    shown, file = [], ""
    for one in evidence[:_MOST_EVIDENCE]:
        if one.file != file:
            file = one.file
            shown.append(f'<span class="quiet">--&gt; {_safe(file)}</span>')
        if one.text:
            number = f'<span class="number">{one.line}</span> ' if one.line else ""
            note = f'<span class="label">{_safe(label(one.label, lang))}</span>' if one.label else ""
            shown.append(f"{number}{_marked(one)}{note}")
    more = len(evidence) - _MOST_EVIDENCE
    if more > 0:
        shown.append(
            f'<span class="quiet">{_safe(label(Message("more-lines", {"count": more}), lang))}</span>'
        )
    return f"<pre>{chr(10).join(shown)}</pre>" if shown else ""


def _marked(one: Evidence) -> str:
    text, mark = printable(one.text, _LONGEST), printable(one.mark, _LONGEST)
    at = text.find(mark) if mark else -1
    if at < 0:
        return _safe(text)
    end = at + len(mark)
    return f"{_safe(text[:at])}<mark>{_safe(text[at:end])}</mark>{_safe(text[end:])}"


def _facts(finding: Finding, lang: Lang) -> str:
    rows = "".join(
        f'<tr><th scope="row">{_safe(name)}</th><td>{_safe(_shown(value))}</td></tr>'
        for name, value in worded(finding.facts, lang).items()
    )
    return (
        f"<details><summary>{_safe(label('facts', lang))}</summary><table>{rows}</table></details>"
        if rows
        else ""
    )


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _files(files: Sequence[tuple[str, str]], lang: Lang) -> str:
    rows = "".join(
        f'<tr><th scope="row">{_safe(kind)}</th><td>{_safe(file)}</td></tr>'
        for file, kind in files[:_MOST_FILES]
    )
    return f'<section class="panel"><h2>{_safe(label("files", lang))}</h2><table>{rows}</table></section>'


def _safe(text: str) -> str:
    return escape(printable(text, _LONGEST))
