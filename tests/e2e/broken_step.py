"""`numaware` in which one step of a kubelet's switch is done and then fails, as on a full disk: `broken_step.py NUMBER WORD…`."""

from __future__ import annotations

import errno
import sys

from numaware.cli import main as numaware
from numaware.node.kubelet_switch.executor import Executor


def break_step(number: int) -> None:
    do = Executor._do

    async def broken(self: Executor, asked: int) -> None:
        await do(self, asked)
        if asked == number:
            raise OSError(errno.ENOSPC, "No space left on device", f"step {number + 1}")

    Executor._do = broken  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    break_step(int(sys.argv.pop(1)))
    sys.exit(numaware())
