"""The style of SVG drawings: what each class of shape looks like, in light and in dark.

Every rule is bound to the drawing's own class, since a drawing that is pasted into a page shares the page's styles.
"""

from __future__ import annotations

from numaware.machine.drawing.palette import paint, variables
from numaware.machine.drawing.shapes import BODY, LABEL, MONO, SMALL, TITLE, Font


def _rule(selector: str, *declarations: str) -> str:
    return f".numaware {selector}{{{';'.join(declarations)}}}"


def _font(font: Font, size: str, *more: str) -> str:
    return _rule(f".{font.name}", f"font-size:{size}", *more)


_SANS = 'font-family:-apple-system,BlinkMacSystemFont,"Segoe UI",Roboto,"Noto Sans","Helvetica Neue",Arial,sans-serif'
_MONO = 'font-family:ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace'
STYLE = "".join(
    (
        f".numaware{{color-scheme:light dark;{variables(0)}}}",
        f"@media (prefers-color-scheme:dark){{.numaware{{{variables(1)}}}}}",
        _rule("text", _SANS, "font-variant-numeric:tabular-nums", paint("fill", "text")),
        _font(TITLE, "18px"),
        _font(BODY, "13px"),
        _font(SMALL, "12px"),
        _font(LABEL, "11px"),
        _font(MONO, "11px", _MONO),
        _rule(".b", "font-weight:600"),
        _rule(".q", paint("fill", "text-2")),
        _rule(".hi", paint("fill", "heat-ink-hi")),
        _rule(".warn", paint("fill", "split")),
        _rule(".page", paint("fill", "bg")),
        _rule(".package", paint("fill", "surface"), paint("stroke", "line")),
        _rule(".node", paint("fill", "surface"), paint("stroke", "line-strong"), "stroke-width:1.5"),
        _rule(".cache", paint("fill", "surface-2"), paint("stroke", "line")),
        _rule(".core", paint("fill", "free"), paint("stroke", "free-line")),
        _rule(".odd", paint("fill", "reserved-bg")),
        _rule(".edge", "fill:none", paint("stroke", "free-line")),
        _rule(".cross", "fill:none", paint("stroke", "text-3")),
        _rule(".small", paint("fill", "text-3")),
        _rule(".switch", "fill:none", paint("stroke", "line-strong"), "stroke-dasharray:4 3"),
        _rule(".device", paint("fill", "surface"), paint("stroke", "line-strong")),
        _rule(".unknown", paint("fill", "surface"), paint("stroke", "line-strong"), "stroke-dasharray:4 3"),
        _rule(".warning", paint("fill", "split-bg"), "stroke:none"),
        *(_rule(f".heat{step}", paint("fill", f"heat-{step}")) for step in range(5)),
        *(_rule(f".node.hue{hue}", paint("stroke", f"numa-{hue}")) for hue in range(8)),
        *(_rule(f".ink.hue{hue},.numaware .bar.hue{hue}", paint("fill", f"numa-{hue}")) for hue in range(8)),
    )
)
