"""The page's colours can be read: text on its grounds, and the lines and marks that carry meaning."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.colour_contrast import contrast

TOKENS = (Path(__file__).parents[3] / "web" / "src" / "tokens.css").read_text(encoding="utf-8")
GROUNDS = ("bg", "surface", "surface-2")
VERDICTS = ("aligned", "split", "refused", "never")


def colours(theme: str) -> dict[str, str]:
    """The tokens of a theme; dark ones replace light ones."""
    light, _, dark = TOKENS.partition("[data-theme=dark]{")
    found = dict(re.findall(r"--([\w-]+):(#[0-9a-f]{6})", light))
    return found if theme == "light" else found | dict(re.findall(r"--([\w-]+):(#[0-9a-f]{6})", dark))


def pairs() -> list[tuple[str, str, float]]:
    """(ink, ground, least contrast)."""
    found = [(ink, ground, 4.5) for ink in ("text", "text-2", "text-3", "accent") for ground in GROUNDS]
    found += [(verdict, ground, 4.5) for verdict in VERDICTS for ground in ("surface", f"{verdict}-bg")]
    found += [("text", f"{verdict}-bg", 4.5) for verdict in VERDICTS]
    found += [(f"numa-{number}", "surface", 4.5) for number in range(8)]
    found += [("pod-ink", f"pod-{letter}", 4.5) for letter in "abcdefgh"]
    found += [("heat-ink-lo", f"heat-{step}", 4.5) for step in range(3)]
    found += [("heat-ink-hi", f"heat-{step}", 4.5) for step in (3, 4)]
    found += [
        (mark, "surface", 3.0)
        for mark in ("line-strong", "exclusive", "free-line", "stranded", "ghost", "focus")
    ]
    found += [
        ("refused-mark", "surface", 3.0),
        ("split-mark", "surface", 3.0),
        ("aligned-mark", "surface", 3.0),
    ]
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("ink", "ground", "least"), pairs(), ids=str)
def test_ink_is_told_from_its_ground(theme: str, ink: str, ground: str, least: float) -> None:
    known = colours(theme)
    assert contrast(known[ink], known[ground]) >= least
