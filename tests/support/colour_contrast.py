"""How well one colour reads on another, by the formula of the Web Content Accessibility Guidelines."""

from __future__ import annotations


def contrast(a: str, b: str) -> float:
    """From 1 (the same) to 21 (black on white); text wants 4.5, lines that carry meaning 3."""
    low, high = sorted((_luminance(a), _luminance(b)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
