"""What can be asked of the API, and the lists that it gives: queries, bodies, pages."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from numaware.serve.console.views.judging import Verdict
from numaware.serve.console.views.pod_shape import Policy, Scope, Shape
from numaware.serve.console.views.pods import PodSummary
from numaware.serve.console.views.strips import Largest
from numaware.serve.console.views.summary import Summary
from numaware.serve.console.views.wall_model import Tile
from numaware.serve.console.views.whatif import Headroom
from numaware.serve.console.world import Event

_PAGE, _LARGEST_PAGE = 500, 5000
_MANIFEST = 256 << 10

Limit = Annotated[int, msgspec.Meta(ge=1, le=_LARGEST_PAGE)]
Text = Annotated[str, msgspec.Meta(max_length=400)]


Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class AtQuery(msgspec.Struct, frozen=True, rename="camel"):
    """`at` asks about a moment that is over (RFC 3339) instead of now; that takes a console that records."""

    at: Moment | None = None


class ShapeQuery(Shape, frozen=True, rename="camel"):
    """A shape as a query; `at` as everywhere."""

    at: Moment | None = None


class Paging(msgspec.Struct, frozen=True, rename="camel"):
    """A page of a list; `continue` is the last name of the page before."""

    limit: Limit = _PAGE
    after: Text = msgspec.field(default="", name="continue")
    at: Moment | None = None


class NodeQuery(Paging, frozen=True, rename="camel"):
    """Nodes whose name, pool or policy contains `q`."""

    q: Text = ""


class PodQuery(Paging, frozen=True, rename="camel"):
    """Pods by part of their name, by node, by phase."""

    q: Text = ""
    node: Text = ""
    phase: Literal["", "Running", "Pending"] = ""


class NodePage(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes in order of name; `continue` is empty on the last page."""

    items: tuple[Summary, ...]
    total: int
    after: str = msgspec.field(default="", name="continue")


class PodPage(msgspec.Struct, frozen=True, rename="camel"):
    """Pods in order; see `NodePage`."""

    items: tuple[PodSummary, ...]
    total: int
    after: str = msgspec.field(default="", name="continue")


class Wall(msgspec.Struct, frozen=True, rename="camel"):
    """All nodes, packed."""

    serial: int
    time: int
    verdicts: tuple[Verdict, ...]
    # How long a node may be silent before it is stale.
    stale_after_ms: int
    tiles: tuple[Tile, ...]


class EventPage(msgspec.Struct, frozen=True, rename="camel"):
    """What happened, the newest first."""

    items: tuple[Event, ...]


class EventQuery(ShapeQuery, frozen=True, rename="camel"):
    """Without `text/event-stream` in Accept the last events are given as a list."""

    limit: Limit = 100


class ExplainQuery(Shape, frozen=True, rename="camel"):
    """A shape, or a pod of the cluster (`namespace/name`), on a node, perhaps under other policies."""

    node: Text = ""
    pod: Text = ""
    policy: Policy | None = None
    scope: Scope | None = None
    at: Moment | None = None


class Question(msgspec.Struct, frozen=True, rename="camel"):
    """A pod, in one of three ways: a shape, a manifest (YAML or JSON), or the name of a pod of the cluster.

    The policies, where given, are tried in place of those that nodes have; `node` is for explanations.
    """

    shape: Shape | None = None
    manifest: Annotated[str, msgspec.Meta(max_length=_MANIFEST)] = ""
    pod: Text = ""
    node: Text = ""
    policy: Policy | None = None
    scope: Scope | None = None


class Room(msgspec.Struct, frozen=True, rename="camel"):
    """How many more such pods there is room for, and the largest pods that fit on one NUMA node."""

    headroom: Headroom
    largest: tuple[Largest, ...]


class MonitorQuery(msgspec.Struct, frozen=True, rename="camel"):
    """A node and how far to look back."""

    node: Text = ""
    minutes: Annotated[int, msgspec.Meta(ge=1, le=10_080)] = 60
    at: Moment | None = None


class HistoryQuery(msgspec.Struct, frozen=True, rename="camel"):
    """The changes `around` a moment are looked for (around now without one): any, or those of a node."""

    around: Moment | None = None
    node: Text = ""


class DiagnoseQuery(msgspec.Struct, frozen=True, rename="camel"):
    """What the file is called, and the language of the findings if it is not that of the call."""

    file: Text = "upload"
    lang: Literal["en", "zh"] | None = None


class Health(msgspec.Struct, frozen=True):
    """The process answers."""

    status: str
