"""What is known of the talk on one node, in a form for others: the lab models it, the console shows it.

Pods are named by namespace and name and referred to by their place in the list, so that a report stays small. It holds at
most so many pods and edges, those who say most first; totals are of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from numaware.affinity.plan import Code, Member, Plan, Zone, between_zones
from numaware.machine.words import printable, rounded

MOST_PODS, MOST_EDGES, MOST_MOVES, MOST_TROUBLES = 150, 200, 50, 20
_MOST_MESSAGE = 600
# What the agent does about it; `modelled` is the lab.
Mode = Literal["observe", "nri", "cgroup", "modelled"]


class PodReport(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that talks: the NUMA nodes it is confined to (none while it floats), its group, and what becomes of it."""

    namespace: str
    name: str
    numa: tuple[int, ...]
    group: int
    answer: Code
    target: int | None = None
    saving: int = 0


class EdgeReport(msgspec.Struct, frozen=True, rename="camel"):
    """Two pods by their places, bytes a second, and how much of that is between NUMA nodes, now and after the plan."""

    one: int
    other: int
    rate: int
    across: int
    planned: int


class Move(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that was moved: when (seconds since 1970), where, and what its group was to save and has saved since.

    `before`, `planned` and `after` are bytes a second that the pod itself exchanges with other NUMA nodes: when it was moved, as
    the plan foresaw, and since. `measured` and `after` are None until they were measured.
    """

    uid: str
    namespace: str
    name: str
    at: int
    target: int
    predicted: int
    measured: int | None = None
    before: int = 0
    planned: int = 0
    after: int | None = None

    @property
    def facts(self) -> dict[str, object]:
        """What a sentence about its gain needs (`affinity-gain`)."""
        rates = {"before": self.before, "planned": self.planned, "after": self.after}
        return {
            "pod": f"{self.namespace}/{self.name}",
            "target": self.target,
            **{name: f"{rounded(rate)}/s" for name, rate in rates.items() if rate is not None},
        }


class NodeReport(msgspec.Struct, frozen=True, rename="camel"):
    """One node at one moment (`at`, seconds since 1970). `moving`: whether pods are moved at present; `silent` talk to nobody.

    `total`, `across` and `planned` are bytes a second: all talk, that between NUMA nodes, and what of it the plan leaves.
    `between` has them for every two of the NUMA nodes in `numa`.
    """

    node: str
    mode: Mode
    moving: bool
    at: int
    numa: tuple[int, ...]
    between: tuple[tuple[int, ...], ...]
    pods: tuple[PodReport, ...]
    edges: tuple[EdgeReport, ...]
    moves: tuple[Move, ...]
    total: int
    across: int
    planned: int
    talking: int
    silent: int
    troubles: tuple[str, ...] = ()


class About(msgspec.Struct, frozen=True):
    """What a plan does not know of the node it is for."""

    node: str
    mode: Mode
    moving: bool
    at: int
    moves: tuple[Move, ...] = ()
    troubles: tuple[str, ...] = ()


def report(about: About, zones: Sequence[Zone], members: Sequence[Member], plan: Plan) -> NodeReport:
    """Those who talk, loudest first."""
    talk = {edge.pair: edge.rate for edge in plan.edges}
    by_uid = {member.uid: member for member in members}
    group_of = {uid: number for number, group in enumerate(plan.groups) for uid in group}
    edges = sorted(plan.edges, key=lambda edge: (-edge.rate, edge.pair))
    said: dict[str, int] = {}
    for edge in edges:
        for uid in edge.pair:
            said[uid] = said.get(uid, 0) + edge.rate
    answers = {answer.uid: answer for answer in plan.answers}
    # Who is to move is never left out for somebody who is merely loud.
    shown = sorted(said, key=lambda uid: (not answers[uid].moves, -said[uid], uid))[:MOST_PODS]
    place = {uid: number for number, uid in enumerate(shown)}
    pods = []
    for uid in shown:
        member, answer = by_uid[uid], answers[uid]
        pods.append(
            PodReport(
                member.namespace,
                member.name,
                member.zones,
                group_of[uid],
                answer.code,
                answer.target,
                answer.saving,
            )
        )
    told = [edge for edge in edges if edge.pair[0] in place and edge.pair[1] in place][:MOST_EDGES]
    return NodeReport(
        node=about.node,
        mode=about.mode,
        moving=about.moving,
        at=about.at,
        numa=tuple(sorted(zone.id for zone in zones)),
        between=between_zones(zones, members, talk),
        pods=tuple(pods),
        edges=tuple(
            EdgeReport(place[edge.pair[0]], place[edge.pair[1]], edge.rate, edge.before, edge.after)
            for edge in told
        ),
        moves=about.moves[-MOST_MOVES:],
        total=plan.total,
        across=plan.across_before,
        planned=plan.across_after,
        talking=len(said),
        silent=len(by_uid) - len(said),
        troubles=tuple(printable(text, _MOST_MESSAGE) for text in about.troubles[:MOST_TROUBLES]),
    )
