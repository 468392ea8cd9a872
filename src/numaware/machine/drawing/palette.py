"""The colours of drawings on a page, by meaning, for light and for dark; the web console uses the same."""

from __future__ import annotations

from collections.abc import Mapping

# name: (light, dark). Text pairs reach a contrast of 4.5 on their ground, lines that carry meaning 3.
TOKENS = {
    "bg": ("#f4f6f8", "#0e1319"),
    "surface": ("#ffffff", "#161d25"),
    "surface-2": ("#eef1f4", "#1e2731"),
    "line": ("#d6dce3", "#2d3844"),
    "line-strong": ("#7f8a99", "#71809a"),
    "text": ("#16202b", "#e8edf3"),
    "text-2": ("#465364", "#b5c0cc"),
    "text-3": ("#5d6878", "#98a5b4"),
    "free": ("#ffffff", "#10161d"),
    "free-line": ("#87929f", "#5d6c7d"),
    "reserved-bg": ("#dde2e8", "#2a343f"),
    "split": ("#7f4a00", "#f3bb5c"),
    "split-bg": ("#fdf1da", "#372a11"),
    "numa-0": ("#0060a8", "#6db3f2"),
    "numa-1": ("#a34a00", "#f0a05a"),
    "numa-2": ("#00704f", "#56c9a0"),
    "numa-3": ("#9b2f72", "#e58bc0"),
    "numa-4": ("#5547b8", "#a99df5"),
    "numa-5": ("#6d6000", "#cdbf4e"),
    "numa-6": ("#0b6e79", "#58c4cf"),
    "numa-7": ("#84432a", "#dd9c7e"),
    "heat-0": ("#f2f6fa", "#18222d"),
    "heat-1": ("#c9dcef", "#1d3a58"),
    "heat-2": ("#8fb6dc", "#2a5d8f"),
    "heat-3": ("#3d74ad", "#4b86c2"),
    "heat-4": ("#1f5690", "#7fb2e6"),
    "heat-ink-lo": ("#16202b", "#e8edf3"),
    "heat-ink-hi": ("#ffffff", "#0e1319"),
}


def variables(theme: int, tokens: Mapping[str, tuple[str, str]] = TOKENS) -> str:
    """The tokens of one theme (0 light, 1 dark) as CSS variables."""
    return ";".join(f"--{name}:{values[theme]}" for name, values in tokens.items())


def paint(attribute: str, token: str) -> str:
    """A CSS declaration that also works where variables are unknown: there it stays light."""
    return f"{attribute}:{TOKENS[token][0]};{attribute}:var(--{token})"
