"""The steps of a switch as values: each can be done, undone and verified, any number of times.

A step does what it says however often it is asked, since after a crash nobody knows whether it was; and its undoing puts back
what was there before, to the byte. Steps hold facts only: `words.py` says them to people, `journal.py` keeps them.
"""

from __future__ import annotations

import asyncio
import time
import urllib.error
import urllib.request
from pathlib import Path

import msgspec

from numaware.kube.errors import ApiError
from numaware.node.atomic_files import remove_file, replace_file
from numaware.node.kubelet_switch.cluster import ClusterNode, DrainError
from numaware.node.kubelet_switch.copies import is_aside, put_aside, put_back
from numaware.node.kubelet_switch.unit import Unit, UnitError
from numaware.sentence import Sentence, quoted

_POLL_SECONDS = 0.5
# A kubelet that systemd has started again so often will not come up.
_MOST_RESTARTS = 2
# Statuses from here on are no answer to the question.
_SERVER_TROUBLE = 500


class StepError(Exception):
    """A step that did not lead where it should, and why."""

    def __init__(self, problem: Sentence | str) -> None:
        self.problem = problem if isinstance(problem, Sentence) else quoted(problem)
        super().__init__(str(problem))


# What goes wrong outside: files, the unit, the API server, pods that stay.
TROUBLES = (StepError, OSError, UnitError, ApiError, DrainError)


class Hands(msgspec.Struct, frozen=True):
    """What steps work with: the node's root, its kubelet's unit and, if there is one, the cluster.

    `healthz` is where the kubelet says that it is well, empty if it does not; `seconds` how long it has to come up.
    """

    root: Path
    unit: Unit
    cluster: ClusterNode | None = None
    healthz: str = ""
    seconds: float = 120.0

    def path(self, name: str) -> Path:
        """A path of the node."""
        return self.root / name.lstrip("/")

    def node(self) -> ClusterNode:
        """The node as the API server has it; only plans that were made with one ask."""
        if self.cluster is None:
            raise StepError(Sentence("the API server was there when this was planned, and is not named now"))
        return self.cluster


class Step(msgspec.Struct, frozen=True, tag_field="step", tag=str.lower):
    """One step; what it does not say otherwise, it has nothing to do for."""

    async def do(self, hands: Hands) -> None:
        raise NotImplementedError

    async def undo(self, hands: Hands) -> None:
        """Put back what was before; nothing by default."""

    async def verify(self, hands: Hands) -> bool:
        """Whether it is as it should be after the step."""
        raise NotImplementedError


class Cordon(Step, frozen=True):
    """No new pods come; `before` says whether that was so already."""

    before: bool = False

    async def do(self, hands: Hands) -> None:
        await hands.node().set_unschedulable(on=True)

    async def undo(self, hands: Hands) -> None:
        await hands.node().set_unschedulable(on=self.before)

    async def verify(self, hands: Hands) -> bool:
        return (await hands.node().read()).unschedulable


class Drain(Step, frozen=True):
    """The pods that can go are asked to, by name for people and by uid for the API server. They do not come back by undoing."""

    pods: tuple[str, ...]
    uids: tuple[str, ...]
    seconds: float

    async def do(self, hands: Hands) -> None:
        await hands.node().drain(self.uids, self.seconds)

    async def verify(self, hands: Hands) -> bool:
        return not any(pod.uid in self.uids for pod in await hands.node().pods())


class Stop(Step, frozen=True):
    """The kubelet stops; containers go on."""

    unit: str

    async def do(self, hands: Hands) -> None:
        await hands.unit.stop()

    async def undo(self, hands: Hands) -> None:
        await _started(hands)

    async def verify(self, hands: Hands) -> bool:
        return not (await hands.unit.state()).active


class Backup(Step, frozen=True):
    """Copies of all files that later steps touch, made while nobody writes them. They are kept."""

    paths: tuple[str, ...]
    folder: str

    async def do(self, hands: Hands) -> None:
        # Once complete they are never made again: the files may have changed since.
        if not is_aside(Path(self.folder)):
            put_aside([hands.path(path) for path in self.paths], Path(self.folder))

    async def verify(self, hands: Hands) -> bool:  # noqa: ARG002
        return is_aside(Path(self.folder))


class Remove(Step, frozen=True):
    """A state file goes that the kubelet would refuse: `said` is how."""

    path: str
    backup: str
    said: str

    async def do(self, hands: Hands) -> None:
        remove_file(hands.path(self.path))

    async def undo(self, hands: Hands) -> None:
        _put_back(hands.path(self.path), Path(self.backup))

    async def verify(self, hands: Hands) -> bool:
        return not hands.path(self.path).exists()


class Write(Step, frozen=True):
    """The configuration as it shall be."""

    path: str
    backup: str
    content: bytes

    async def do(self, hands: Hands) -> None:
        path = hands.path(self.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, self.content)

    async def undo(self, hands: Hands) -> None:
        _put_back(hands.path(self.path), Path(self.backup))

    async def verify(self, hands: Hands) -> bool:
        path = hands.path(self.path)
        return path.exists() and path.read_bytes() == self.content


class Start(Step, frozen=True):
    """The kubelet starts, with the new configuration."""

    unit: str

    async def do(self, hands: Hands) -> None:
        await _start(hands)

    async def undo(self, hands: Hands) -> None:
        await hands.unit.stop()

    async def verify(self, hands: Hands) -> bool:  # noqa: ARG002
        # Whether it stays up is the next step's question.
        return True


class Ready(Step, frozen=True):
    """The kubelet is well, and has told the API server so."""

    unit: str

    async def do(self, hands: Hands) -> None:
        await _came_up(hands)

    async def verify(self, hands: Hands) -> bool:
        return (await hands.unit.state()).active


class Uncordon(Step, frozen=True):
    """New pods come again."""

    async def do(self, hands: Hands) -> None:
        await hands.node().set_unschedulable(on=False)

    async def verify(self, hands: Hands) -> bool:
        return not (await hands.node().read()).unschedulable


AnyStep = Cordon | Drain | Stop | Backup | Remove | Write | Start | Ready | Uncordon


def _put_back(path: Path, folder: Path) -> None:
    """Where copies were begun and not ended, no file has been touched yet."""
    if is_aside(folder):
        put_back(path, folder)


async def _started(hands: Hands) -> None:
    if not (await hands.unit.state()).active:
        await _start(hands)
    await _came_up(hands)


async def _start(hands: Hands) -> None:
    """A unit that systemd waits for (k3s, RKE2) fails here and not later: then what it said meanwhile is why."""
    began = time.time()
    try:
        await hands.unit.start()
    except UnitError as error:
        if words := await hands.unit.last_words(began):
            raise StepError(_with_words(str(error), words)) from None
        raise


def _with_words(problem: str | Sentence, words: str) -> Sentence:
    return Sentence("{problem}; it said: {words}", problem=problem, words=words)


async def _came_up(hands: Hands) -> None:
    """Wait until the kubelet is well; what it said last is why it is not."""
    began, deadline = time.time(), time.monotonic() + hands.seconds
    before = (await hands.unit.state()).restarts
    while True:
        state = await hands.unit.state()
        # One that runs all along has said so when it came up, and says it again only every few minutes.
        since = began if state.since is None else min(began, state.since)
        try:
            if state.active and await _is_well(hands, since):
                return
        except ApiError as error:
            # The API server of a k3s or RKE2 server is started with its kubelet, and needs longer.
            if 0 < error.status < _SERVER_TROUBLE or time.monotonic() >= deadline:
                raise
        looping = state.restarts - before >= _MOST_RESTARTS
        if state.failed or looping or time.monotonic() >= deadline:
            words = await hands.unit.last_words()
            problem = Sentence("the kubelet did not come up within {seconds} s", seconds=int(hands.seconds))
            if state.failed or looping:
                problem = Sentence("the kubelet does not stay up")
            raise StepError(_with_words(problem, words) if words else problem)
        await asyncio.sleep(_POLL_SECONDS)


async def _is_well(hands: Hands, began: float) -> bool:
    if hands.healthz and not await asyncio.to_thread(_answers_ok, hands.healthz):
        return False
    return hands.cluster is None or await hands.cluster.is_ready_since(began)


def _answers_ok(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - the kubelet's own address
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError, ValueError):
        return False
