"""Parts of a program that run side by side and end together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def together(*parts: Coroutine[Any, Any, None]) -> None:
    """Run all until one ends or fails, which ends the others; the error of the first that has one is what is raised."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.result()
