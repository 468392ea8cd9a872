"""Who carries out what was planned, and who is told by it what becomes of containers: NRI, or the kernel's control groups.

Both speak with `Placements` in the same way (`Resident`): they tell what runs, what is made, what somebody else has changed
and what is gone, and do what it answers. Called by `mover.py`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from numaware.diagnose.texts import label
from numaware.node.affinity.pod_groups import PodGroup
from numaware.node.nri.mux import WireError
from numaware.node.nri.plugin import Changes, Plugin, Resident
from numaware.node.nri.preflight import advise
from numaware.node.nri.ttrpc import CallError
from numaware.node.troubles import Troubles

_FIRST_RETRY, _LONGEST_RETRY = 0.2, 10.0
_SWITCH_SECONDS = 0.0005
# What asking a runtime for changes may raise.
FAILURES = (WireError, CallError, TimeoutError, OSError)


class Runtime(Protocol):
    """`ready` is set when it has told all that runs."""

    ready: asyncio.Event

    @property
    def name(self) -> str:
        """Empty while nobody is there."""

    async def run(self) -> None:
        """Until cancelled; whatever else ends it was not foreseen."""

    async def follow(self, pods: Iterable[PodGroup]) -> frozenset[str]:
        """What runs now, as the kernel tells; the pods of those who insist on something else."""

    async def update(self, changes: Changes) -> tuple[str, ...]:
        """Change containers; those that could not be changed. Raises one of `FAILURES`."""


class ThroughNri:
    """The container runtime by its interface for plug-ins; connected again each time that it goes."""

    def __init__(self, socket: str, resident: Resident, troubles: Troubles, root: Path) -> None:
        self._socket = socket
        self._root = root
        self._troubles = troubles
        self._plugin = Plugin(resident)
        self.ready = self._plugin.synchronized

    @property
    def name(self) -> str:
        return self._plugin.runtime

    async def run(self) -> None:
        # A container that is being made waits for us, and a plan that is being made beside should not add to that.
        sys.setswitchinterval(_SWITCH_SECONDS)
        wait = _FIRST_RETRY
        while True:
            try:
                await self._plugin.run(self._socket)
            except FileNotFoundError:
                advice = label(advise(self._root, self._socket).message, "en")
                self._troubles.raised("runtime", "no-socket", f"{self._socket} is not there: {advice}")
            except FAILURES as error:
                self._troubles.raised("runtime", type(error).__name__, f"{self._socket}: {error}")
            wait = _FIRST_RETRY if self._plugin.runtime else min(_LONGEST_RETRY, 2 * wait)
            self._plugin.runtime = ""
            await asyncio.sleep(wait)

    async def follow(self, pods: Iterable[PodGroup]) -> frozenset[str]:  # noqa: ARG002 - it is told by the runtime itself
        return frozenset()

    async def update(self, changes: Changes) -> tuple[str, ...]:
        return await self._plugin.update(changes)
