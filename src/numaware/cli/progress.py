"""Progress bars on standard error, where that is a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress


@contextlib.contextmanager
def progress_bars(
    columns: Callable[[Any], Sequence[Any]], *, visible: bool = True, **settings: Any
) -> Iterator[Progress | None]:
    """Bars while something goes on; None where nobody looks.

    `columns` picks them from `rich.progress`, which takes a tenth of a second to import: only a terminal pays for it.
    """
    if not visible or not sys.stderr.isatty():
        yield None
        return
    from rich import progress  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415

    console = Console(stderr=True)
    with progress.Progress(*columns(progress), console=console, transient=True, **settings) as bars:
        yield bars


@contextlib.contextmanager
def progress_bar(
    columns: Callable[[Any], Sequence[Any]], total: int | None, text: str = "", **settings: Any
) -> Iterator[Callable[..., object]]:
    """Rich's `update` of one such bar, to be called with `advance=` or `completed=`."""
    with progress_bars(columns, **settings) as bars:
        yield partial(bars.update, bars.add_task(text, total=total)) if bars else lambda **_: None
