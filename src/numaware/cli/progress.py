"""A progress bar on the terminal for the one who waits."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any


@contextlib.contextmanager
def progress_bar(
    columns: Callable[[Any], Sequence[Any]],
    total: int | None,
    text: str = "",
    *,
    visible: bool = True,
    **settings: Any,
) -> Iterator[Callable[..., object]]:
    """Rich's `update` of one bar, to be called with `advance=` or `completed=`; where nobody looks, a call does nothing.

    `columns` picks them from `rich.progress`, which takes a tenth of a second to import: only a terminal pays for it.
    """
    if not visible or not sys.stderr.isatty():
        yield lambda **_: None
        return
    from rich import progress  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415

    console = Console(stderr=True)
    with progress.Progress(*columns(progress), console=console, transient=True, **settings) as bars:
        yield partial(bars.update, bars.add_task(text, total=total))
