"""Pods that talk, as the Traffic page shows them: how much crosses NUMA nodes where, and on one node who talks to whom.

What is shown is what agents published (`affinity/report.py`), or what the lab models; nothing is decided here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from numaware.affinity.report import Mode, Move, NodeReport, PodReport
from numaware.diagnose.finding import Message
from numaware.diagnose.texts import Lang, label
from numaware.machine.words import rounded
from numaware.serve.console.world import NOTHING, Source, Told, World

# One moment in ten seconds, for an hour.
_EVERY, _MOST_MOMENTS = 10_000, 360
_MOST_MOVES = 100
# Agents write at most this seldom while nothing changes; later than that they may have ended.
STALE_AFTER = 180


class NodeTalk(msgspec.Struct, frozen=True, rename="camel"):
    """One node in a list; amounts are bytes a second, `moves` so many pods that should move."""

    node: str
    mode: Mode
    moving: bool
    stale: bool
    at: int
    numa: int
    talking: int
    total: int
    across: int
    planned: int
    moves: int


class MovedPod(msgspec.Struct, frozen=True, rename="camel"):
    """A move that was made, and on which node."""

    node: str
    move: Move


class TalkMoment(msgspec.Struct, frozen=True, rename="camel"):
    """All nodes together at one moment, in bytes a second."""

    time: int
    total: int
    across: int
    planned: int


class Traffic(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes of which an agent reports, those first where most could be saved; the latest moves first.

    Sums leave out nodes whose reports are stale, and `time` is the oldest moment that they count. `missing` says what keeps
    agents from being heard.
    """

    nodes: tuple[NodeTalk, ...]
    moves: tuple[MovedPod, ...]
    moments: tuple[TalkMoment, ...]
    total: int
    across: int
    planned: int
    source: Source
    time: int
    missing: Told = NOTHING


class TalkingPod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod and what becomes of it, in the reader's language as well."""

    pod: PodReport
    reason: str


class NodeTraffic(msgspec.Struct, frozen=True, rename="camel"):
    """One node in full."""

    report: NodeReport
    pods: tuple[TalkingPod, ...]
    mode: str
    stale: bool
    source: Source
    time: int


class TrafficRecorder:
    """What all nodes said together, moment by moment, for a plot."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.moments: deque[TalkMoment] = deque(maxlen=_MOST_MOMENTS)

    def record(self) -> None:
        """Look, if it is time."""
        now = self._world.now
        if self.moments and now - self.moments[-1].time < _EVERY:
            return
        reports = _fresh(self._world)
        if reports:
            self.moments.append(TalkMoment(now, *_sums(reports)))


def overview(world: World, recorder: TrafficRecorder) -> Traffic:
    """All nodes that report."""
    reports = world.traffic()
    nodes = [_summary(report, world.now) for report in reports]
    nodes.sort(key=lambda one: (one.planned - one.across, -one.across, -one.total, one.node))
    moves = [MovedPod(report.node, move) for report in reports for move in report.moves]
    moves.sort(key=lambda one: (-one.move.at, one.node, one.move.uid))
    fresh = _fresh(world)
    return Traffic(
        tuple(nodes),
        tuple(moves[:_MOST_MOVES]),
        tuple(recorder.moments),
        *_sums(fresh),
        _source(world),
        min([1000 * report.at for report in fresh], default=world.now),
        world.untold,
    )


def of_node(world: World, report: NodeReport, lang: Lang) -> NodeTraffic:
    """Who talks to whom there, and what becomes of everybody."""
    return NodeTraffic(
        report,
        tuple(TalkingPod(pod, _reason(pod, lang)) for pod in report.pods),
        label(Message(f"affinity-mode-{report.mode}", {}), lang),
        _stale(report, world.now),
        _source(world),
        1000 * report.at,
    )


def _summary(report: NodeReport, now: int) -> NodeTalk:
    return NodeTalk(
        report.node,
        report.mode,
        report.moving,
        _stale(report, now),
        report.at,
        len(report.numa),
        report.talking,
        report.total,
        report.across,
        report.planned,
        sum(pod.answer == "move" for pod in report.pods),
    )


def _reason(pod: PodReport, lang: Lang) -> str:
    """As `numaware affinity plan` says it."""
    moves = pod.answer == "move"
    facts = {"target": pod.target, "saving": f"{rounded(pod.saving)}/s"} if moves else {}
    return label(Message(f"affinity-{pod.answer}", facts), lang)


def _sums(reports: Sequence[NodeReport]) -> tuple[int, int, int]:
    return (
        sum(report.total for report in reports),
        sum(report.across for report in reports),
        sum(report.planned for report in reports),
    )


def _fresh(world: World) -> list[NodeReport]:
    return [report for report in world.traffic() if not _stale(report, world.now)]


def _stale(report: NodeReport, now: int) -> bool:
    return now // 1000 - report.at > STALE_AFTER


def _source(world: World) -> Source:
    return "modelled" if world.kind == "lab" else "measured"
