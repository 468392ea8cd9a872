"""What the console is about: a cluster, its clock, and what happened there. The lab is one such world, a live cluster another.

Everything that is shown follows from the cluster's twins; a world adds only what twins cannot know: when nodes were last
heard of, how pods came to be where they are, who waits, and what can be switched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Annotated, Any, Literal, Protocol

import msgspec

from numaware.affinity.report import NodeReport
from numaware.kube.errors import ApiError
from numaware.kube.kubelet_policies import KubeletPolicy
from numaware.kube.kubelet_policies import Order as Command
from numaware.schedule.cluster import Cluster
from numaware.schedule.ledger import Placement
from numaware.sentence import Sentence, quoted
from numaware.workload.pod import Pod

# How a fact came to be known.
Source = Literal["measured", "reported", "modelled", "inferred"]
Happening = Literal["admitted", "refused", "waiting", "left", "gave-up", "switched"]
Status = Literal["open", "close"]
Kind = Literal["lab", "cluster"]
AFFINITY, DISTANCE, RUNTIME = "numaaware", "numadistance", "podaffinity"
# What a switch that is being moved is at: writing it down, restarting who reads it, changing node after node, or putting
# all of it back.
Stage = Literal["writing", "restarting", "switching", "undoing"]


# A sentence that is written in the reader's language when it is sent.
Told = Annotated[Sentence, msgspec.Meta(extra_json_schema={"type": "string", "default": ""})]
NOTHING = msgspec.field(default_factory=Sentence)


class Change(msgspec.Struct, frozen=True, rename="camel"):
    """A switch that was moved: when, by whom, from what to what; with a `problem` it was put back."""

    time: int
    switch: str
    before: Status
    after: Status
    by: str
    problem: Told = NOTHING


class Event(msgspec.Struct, frozen=True, rename="camel"):
    """Something that happened, by number in the order of time (milliseconds since 1970)."""

    id: int
    time: int
    kind: Happening
    pod: str = ""
    node: str = ""
    owner: str = ""
    reason: str = ""
    message: str = ""
    # What was switched, and to what.
    change: Change | None = None


def news(events: Sequence[Event], last: int) -> list[Event]:
    """What happened after the event of that number, oldest first."""
    return list(takewhile(lambda event: event.id > last, reversed(events)))[::-1]


class Story(msgspec.Struct, frozen=True):
    """How a pod came to be on its node: since when, who owns it, what was predicted and what was seen there."""

    since: int
    owner: str
    predicted: Placement | None
    observed: Placement | None
    scheduler: str = ""


class Waiting(msgspec.Struct, frozen=True):
    """A pod that has no node, since when, and why."""

    pod: Pod
    owner: str
    since: int
    message: str


class Progress(msgspec.Struct, frozen=True):
    """How far a switch that is being moved has come: of the pods that restart, or the nodes that change, how many are ready."""

    stage: Stage
    ready: int = 0
    wanted: int = 0


class Switch(msgspec.Struct, frozen=True, rename="camel"):
    """One of openFuyao's policies. `conf` is what it is written in.

    `missing` says which part of it is not here at all, `broken` why a part that should be here cannot be used as it is. One
    that is `locked` is here, and `missing` is the right to move it.
    """

    id: str
    status: Status
    missing: Told = NOTHING
    place: str = ""
    conf: str = ""
    broken: Told = NOTHING
    progress: Progress | None = None
    locked: bool = False


def locked_switch(switch: str, verb: str, what: str) -> Switch:
    """A switch that is there, and that the console's account may not look at or move."""
    missing = Sentence("the account of this console may not {verb} {what}", verb=verb, what=what)
    return Switch(switch, "close", missing=missing, locked=True)


def unread_switch(switch: str, place: str, error: ApiError) -> Switch:
    """A switch of which nobody can tell how it stands."""
    if error.status == 403:
        missing = Sentence("the account of this console may not read {place}", place=place)
        return Switch(switch, "close", missing=missing)
    broken = Sentence("{place} cannot be read: {problem}", place=place, problem=str(error))
    return Switch(switch, "close", place=place, broken=broken)


class SwitchError(Exception):
    """A switch that stands as it stood: why. `busy` if it is being moved just now, `undone` if it was, and put back."""

    def __init__(self, message: Sentence | str, *, busy: bool = False, undone: bool = False) -> None:
        self.sentence = message if isinstance(message, Sentence) else quoted(message)
        self.busy = busy
        self.undone = undone
        super().__init__(message)


class OrderBook(Protocol):
    """Where the orders of a world are written down."""

    @property
    def policies(self) -> Sequence[KubeletPolicy]:
        """As last read, by name."""

    @property
    def locked(self) -> Sentence:
        """Why nothing may be ordered from here; empty if it may."""

    async def read(self) -> None:
        """Look at them; what keeps them from being read is said by `locked`."""

    async def give(self, name: str, spec: Mapping[str, Any]) -> None:
        """Order this; what is ordered under that name is replaced. `SwitchError` if it cannot be."""

    async def change(self, name: str, command: Command) -> None:
        """Hold it, go on with it, or call it back; `KeyError` if there is no such order."""


class World(Protocol):
    """A cluster that lives. All of it is read and changed on one thread."""

    @property
    def name(self) -> str: ...

    @property
    def now(self) -> int:
        """Milliseconds since 1970, as far as the world has come."""

    @property
    def kind(self) -> Kind: ...

    @property
    def cluster(self) -> Cluster: ...

    @property
    def events(self) -> Sequence[Event]:
        """What happened lately, oldest first."""

    @property
    def stories(self) -> Mapping[str, Story]:
        """By uid, of the pods that are on nodes."""

    @property
    def waiting(self) -> Mapping[str, Waiting]: ...

    @property
    def switches(self) -> Sequence[Switch]:
        """As they were when last read."""

    @property
    def orders(self) -> OrderBook:
        """What was ordered of kubelets."""

    @property
    def changes(self) -> Sequence[Change]:
        """Switches moved, oldest first."""

    def traffic(self) -> Sequence[NodeReport]:
        """What agents say of pods that talk on their nodes; of a past nothing is kept."""

    @property
    def untold(self) -> Sentence:
        """What keeps agents from being heard; empty if nothing does."""

    def advance(self, now: int) -> None:
        """Time has come to `now`, in milliseconds since 1970."""

    def reported(self, node: str) -> tuple[Source, int]:
        """How the node's state is known, and since when it has been as known."""

    def switched_conf(self, switch: str, status: Status) -> str:
        """What the switch's configuration would be; `KeyError` where there is no such switch."""

    async def read_switches(self) -> None:
        """Look how they stand where they are written down."""

    async def set_switch(self, switch: str, status: Status, by: str) -> Switch:
        """Move a switch, and return when all that follows from it is done; one that stands there already is left alone.

        One whose `progress` is still there has only been begun: nobody moves the clock that it needs.
        `SwitchError` if it could not be moved, or had to be put back.
        """
