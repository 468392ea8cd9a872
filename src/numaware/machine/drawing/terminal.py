"""Text pictures on a terminal: its width, its colours, or none of them.

The background of a terminal is not known, so the colours of NUMA nodes are middle tones that read on black and
on white, and a cell of heat brings its own ground and ink. Colour only repeats what the characters say.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from numaware.machine.drawing.lines import Line, to_ascii, to_plain
from numaware.machine.drawing.palette import TOKENS

if TYPE_CHECKING:
    from rich.console import Console

# Width of a picture that goes to a file or a pipe.
PAGE = 100
_WIDEST = 120

STYLES = {
    "bold": "bold",
    "quiet": "dim",
    "warning": "bold #b06a00",
    "package": "#7a7f87",
    "cache": "#7a7f87",
    "cores": "#4a7fb5",
    "device": "bold",
    "numa-0": "#1e7fd0",
    "numa-1": "#bd6400",
    "numa-2": "#00875f",
    "numa-3": "#c44f96",
    "numa-4": "#7d6ee0",
    "numa-5": "#8a7a00",
    "numa-6": "#0a8591",
    "numa-7": "#b0623f",
    **{
        f"heat-{step}": f"{TOKENS[f'heat-ink-{ink}'][0]} on {TOKENS[f'heat-{step}'][0]}"
        for step, ink in enumerate(("lo", "lo", "lo", "hi", "hi"))
    },
}


def width_of(stream: TextIO) -> int:
    """The columns of the terminal, or a page's where there is none (COLUMNS overrides both)."""
    return (
        shutil.get_terminal_size((PAGE, 24)).columns if stream.isatty() or "COLUMNS" in os.environ else PAGE
    )


def reading_width(stream: TextIO) -> int:
    """The width for sentences, which are hard to follow on long lines."""
    return min(width_of(stream), _WIDEST)


def wants_colour(stream: TextIO) -> bool:
    """https://no-color.org and https://force-color.org, then whether somebody is looking."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def write(lines: Sequence[Line], stream: TextIO) -> None:
    """Print the lines, coloured where colours can be seen."""
    if not wants_colour(stream):
        write_plain(to_plain(lines), stream)
        return
    # rich takes a tenth of a second to import: only those who see colours pay for it.
    from rich.console import Console  # noqa: PLC0415

    print_to(Console(file=stream, force_terminal=True, highlight=False, width=10_000), lines)


def write_plain(text: str, stream: TextIO) -> None:
    """Print text, in ASCII where the stream knows nothing else."""
    try:
        text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        text = to_ascii(text)
    stream.write(text)


def print_to(console: Console, lines: Sequence[Line]) -> None:
    """Print the lines in colours to a console of rich."""
    from rich.text import Text  # noqa: PLC0415 - see above

    for line in lines:
        text = Text()
        for span in line:
            text.append(span.text, " ".join(STYLES.get(name, name) for name in span.style.split()))
        console.print(text, no_wrap=True, overflow="ignore", crop=False)
