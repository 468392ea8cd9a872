"""Cluster NUMA affinity on a live cluster: a plugin in the configuration of Volcano's scheduler.

What moving that switch means, step by step: edit the text as it is now, write it only if nobody has written it meanwhile
(else read and edit again), have the scheduler start anew, and watch it until all its pods are ready. If they do not become
so in time, both are put back: the text, unless somebody else has changed it since, and the pods that there were before.
Where the text already says what is wished, nothing is written and nothing restarts.

The scheduler would notice a new text by itself, but only when the kubelet has brought it to its pod, which may take
minutes; and one that it cannot use it passes over in silence. A restart is what shows that it works.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

import structlog
from msgspec.structs import replace
from structlog.contextvars import bound_contextvars

from numaware.errors import InputError
from numaware.kube import config_maps, deployments
from numaware.kube.client import Client
from numaware.kube.errors import ApiError
from numaware.kube.microtime import micro_time
from numaware.kube.transport import Clock, Sleep
from numaware.sentence import Sentence, sentence_of
from numaware.serve.console.openfuyao import volcano_conf
from numaware.serve.console.openfuyao.volcano_conf import KEY, MAP, NAMESPACE, PLACE
from numaware.serve.console.world import AFFINITY, Progress, Stage, Status, Switch, SwitchError, unread_switch

DEPLOYMENT = "volcano-scheduler"

_TRIES = 5
_SECONDS_BETWEEN_LOOKS = 0.5
_log = structlog.get_logger(__name__)


class _Edit(NamedTuple):
    """A text, and what was made of it."""

    before: str
    after: str


class _NotUpError(Exception):
    """The scheduler did not become ready; why."""


class Volcano:
    """The switch of one cluster. `patience` is how long its scheduler may take to become ready, in seconds."""

    def __init__(
        self,
        client: Client,
        *,
        patience: float = 120.0,
        clock: Clock = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._client = client
        self._patience = patience
        self._clock = clock
        self._now = now
        self._sleep = sleep
        self._switch = Switch(AFFINITY, "close", place=PLACE, broken=Sentence("it has not been read yet"))
        self._progress: Progress | None = None
        # The last change that was made from here: undoing it gives back that very text, arguments and all.
        self._last: _Edit | None = None

    @property
    def switch(self) -> Switch:
        """As last read, and how far it is if it is being moved."""
        return replace(self._switch, progress=self._progress)

    async def read(self) -> None:
        """Look at the configuration."""
        with suppress(ApiError):
            await self._map()

    def switched(self, status: Status) -> str:
        """What the configuration as last read would be."""
        return self._edited(self._switch.conf, status)

    async def move(self, status: Status, by: str) -> bool:
        """Move the switch, and return whether it had to be; `SwitchError` if it stands as it stood."""
        if self._progress is not None:
            raise SwitchError(Sentence("it is being moved already"), busy=True)
        self._progress = Progress("writing")
        try:
            # Each write on the way is logged with who wanted it.
            with bound_contextvars(by=by):
                return await self._moved(status)
        except InputError as error:
            raise SwitchError(error.sentence) from None
        except ApiError as error:
            problem = self._switch.broken or Sentence("the API server says: {problem}", problem=str(error))
            raise SwitchError(problem) from None
        finally:
            self._progress = None

    # Reading

    async def _map(self) -> config_maps.ConfigMap:
        """The map as it is now; what it says is kept, also where it cannot be read."""
        try:
            found = await config_maps.read(self._client, MAP, NAMESPACE)
        except ApiError as error:
            self._switch = _unread(error)
            raise
        text = found.data.get(KEY, "")
        if text != self._switch.conf or self._switch.broken or self._switch.missing:
            self._switch = _read(text)
        return found

    def _edited(self, text: str, status: Status) -> str:
        last = self._last
        if last is not None and text == last.after and volcano_conf.status_of(last.before) == status:
            return last.before
        return volcano_conf.switched(text, status)

    # Moving

    async def _moved(self, status: Status) -> bool:
        await self._map()
        before = await deployments.read(self._client, DEPLOYMENT, NAMESPACE)
        if before.paused:
            paused = Sentence(
                "Deployment {name} is paused, so it would not restart", name=f"{NAMESPACE}/{DEPLOYMENT}"
            )
            raise SwitchError(paused)
        edit = await self._write(lambda text: self._edited(text, status))
        if edit is None:
            return False
        moment = micro_time(self._now())
        try:
            await self._restart(moment, "restarting")
        except (ApiError, _NotUpError) as error:
            what = "could not be restarted" if isinstance(error, ApiError) else "did not come up"
            _log.warning(f"scheduler {what}", problem=str(error))
            undone = await self._undo(edit, moment, before.restarted_at)
            problem = sentence_of(error)
            if isinstance(error, ApiError):
                told = Sentence(
                    "the scheduler could not be restarted ({problem}); {undone}",
                    problem=problem,
                    undone=undone,
                )
            else:
                told = Sentence(
                    "the scheduler did not come up ({problem}); {undone}", problem=problem, undone=undone
                )
            raise SwitchError(told, undone=True) from None
        self._last = edit
        return True

    async def _write(self, edited: Callable[[str], str]) -> _Edit | None:
        """Write what becomes of the text as it is now, None if that is the same."""
        for _ in range(_TRIES):
            found = await self._map()
            before = found.data.get(KEY, "")
            after = edited(before)
            if after == before:
                return None
            try:
                await config_maps.write(self._client, found, KEY, after)
            except ApiError as error:
                if error.conflict:
                    await self._sleep(_SECONDS_BETWEEN_LOOKS)
                    continue
                # It may be there all the same; the answer is what was lost.
                if not error.uncertain or (await self._map()).data.get(KEY) != after:
                    raise
            self._switch = _read(after)
            _log.info("configuration written", place=PLACE, status=self._switch.status)
            return _Edit(before, after)
        raise SwitchError(Sentence("somebody else keeps writing {place}", place=PLACE))

    async def _restart(self, moment: str | None, stage: Stage) -> None:
        """Have the scheduler start anew, and wait until it is ready."""
        self._progress = Progress(stage)
        asked = await deployments.restart(self._client, DEPLOYMENT, NAMESPACE, moment)
        _log.info("scheduler restarted", deployment=f"{NAMESPACE}/{DEPLOYMENT}", moment=moment, stage=stage)
        deadline = self._clock() + self._patience
        rollout = asked
        while True:
            try:
                rollout = await deployments.read(self._client, DEPLOYMENT, NAMESPACE)
            except ApiError as error:
                # A server that is away for a moment tells nothing about the scheduler.
                if not error.uncertain:
                    raise
            if rollout.done(asked.generation):
                return
            if rollout.gave_up(asked.generation):
                raise _NotUpError(rollout.failed)
            ready = max(0, rollout.available + rollout.updated - rollout.total)
            self._progress = Progress(stage, ready, rollout.wanted)
            if self._clock() >= deadline:
                raise _NotUpError(
                    Sentence(
                        "after {seconds:g} s {ready} of {wanted} pods are ready",
                        seconds=self._patience,
                        ready=ready,
                        wanted=rollout.wanted,
                    )
                )
            await self._sleep(_SECONDS_BETWEEN_LOOKS)

    async def _undo(self, edit: _Edit, moment: str, earlier: str | None) -> Sentence:
        """Put back what we have changed, as far as it is still ours; tells how that went."""
        self._progress = Progress("undoing")
        told = Sentence("it was put back as it was")
        try:
            back = await self._write(lambda text: edit.before if text == edit.after else text)
            if back is None and self._switch.conf != edit.before:
                told = Sentence(
                    "somebody else has changed the configuration since, so that was left as it is"
                )
            now = await deployments.read(self._client, DEPLOYMENT, NAMESPACE)
            if now.restarted_at == moment:
                await self._restart(earlier, "undoing")
        except _NotUpError as error:
            problem = sentence_of(error)
            return Sentence(
                "{undone}, but the scheduler is not ready: {problem}", undone=told, problem=problem
            )
        except (ApiError, SwitchError) as error:
            return Sentence("putting it back did not succeed: {problem}", problem=sentence_of(error))
        return told


def _read(text: str) -> Switch:
    try:
        return Switch(AFFINITY, volcano_conf.status_of(text), place=PLACE, conf=text)
    except InputError as error:
        broken = Sentence("{source}: {problem}", source=PLACE, problem=error.sentence)
        return Switch(AFFINITY, "close", place=PLACE, conf=text, broken=broken)


def _unread(error: ApiError) -> Switch:
    if not error.not_found:
        return unread_switch(AFFINITY, PLACE, error)
    broken = Sentence(
        "there is no ConfigMap {name}: Volcano's scheduler is not installed", name=f"{NAMESPACE}/{MAP}"
    )
    return Switch(AFFINITY, "close", place=PLACE, broken=broken)
