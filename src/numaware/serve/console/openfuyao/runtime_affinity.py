"""Runtime pod affinity on a live cluster: one word in openFuyao's Oenuma, which its runtime plug-in obeys at once, and our agents soon."""

from __future__ import annotations

from contextlib import suppress

import structlog
from msgspec.structs import replace

from numaware.kube import oenumas
from numaware.kube.client import Client
from numaware.kube.errors import ApiError
from numaware.kube.resources import OENUMAS
from numaware.kube.reviews import may_i
from numaware.machine.words import printable
from numaware.sentence import Sentence
from numaware.serve.console.world import RUNTIME, Status, Switch, SwitchError, locked_switch, unread_switch

NAMESPACE = "tcs"
NAME = "podafi"
PLACE = f"Oenuma {NAMESPACE}/{NAME}, field spec.updateenable"

_TRIES = 5
_WORDS: dict[Status, str] = {"open": "enable", "close": "disable"}
_log = structlog.get_logger(__name__)


class RuntimeAffinity:
    """The switch of one cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.switch = Switch(RUNTIME, "close", place=PLACE, broken=Sentence("it has not been read yet"))

    async def read(self) -> None:
        """Look how it stands, and whether it may be moved."""
        with suppress(ApiError):
            await self._object()
            if not await may_i(self._client, "patch", OENUMAS, NAME, NAMESPACE):
                self.switch = replace(_locked("patch"), status=self.switch.status)

    def switched(self, status: Status) -> str:
        """What would be written there."""
        return self.switch.conf if status == self.switch.status else conf_of(status)

    async def move(self, status: Status, by: str) -> bool:
        """Write the other word, and return whether it had to be written; `SwitchError` if it could not be."""
        try:
            for _ in range(_TRIES):
                found = await self._object()
                if found.acts == (status == "open"):
                    return False
                if await self._written(found, status):
                    _log.info("switch written", place=PLACE, status=status, by=by)
                    return True
        except ApiError as error:
            raise SwitchError(Sentence("the API server says: {problem}", problem=str(error))) from None
        raise SwitchError(Sentence("somebody else keeps writing {place}", place=PLACE))

    async def _written(self, found: oenumas.Oenuma, status: Status) -> bool:
        """Whether it is there now; not if somebody else was first."""
        try:
            self._know(await oenumas.write(self._client, found, _WORDS[status]))
        except ApiError as error:
            if error.conflict:
                return False
            # It may be there all the same; the answer is what was lost.
            if not error.uncertain or (await self._object()).acts != (status == "open"):
                raise
        return True

    async def _object(self) -> oenumas.Oenuma:
        try:
            found = await oenumas.read(self._client, NAME, NAMESPACE)
        except ApiError as error:
            self.switch = _unread(error)
            raise
        self._know(found)
        return found

    def _know(self, found: oenumas.Oenuma) -> None:
        status: Status = "open" if found.acts else "close"
        self.switch = Switch(RUNTIME, status, place=PLACE, conf=_conf(found.spec.updateenable))


def conf_of(status: Status) -> str:
    """What a switch that stands like this has in its Oenuma."""
    return _conf(_WORDS[status])


def _conf(word: str) -> str:
    return f'spec:\n  updateenable: "{printable(word, 40)}"\n'


def _locked(verb: str) -> Switch:
    return locked_switch(RUNTIME, verb, f"{OENUMAS.plural}.{OENUMAS.group} {NAMESPACE}/{NAME}")


def _unread(error: ApiError) -> Switch:
    if error.status == 403:
        return _locked("get")
    if not error.not_found:
        return unread_switch(RUNTIME, PLACE, error)
    missing = Sentence(
        "there is no Oenuma {name}: neither an agent that moves pods nor openFuyao's runtime plug-in has made it",
        name=f"{NAMESPACE}/{NAME}",
    )
    return Switch(RUNTIME, "close", missing=missing)
