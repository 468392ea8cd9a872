"""How much pods say to each other, smoothed over time, and from when on that counts as talking.

A collector of `node` counts bytes between pods, period by period. Rates are smoothed, so that one burst is no friendship;
an edge begins only after the rate was high in most of the last periods, and ends only when it was low in all of them, so
that a rate at the border does not make pods move to and fro. Values in, values out: the same counts give the same edges.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

# Of two uids, the smaller first.
Pair = tuple[str, str]


class Smoothing(msgspec.Struct, frozen=True):
    """`least` is in bytes a second. A rate follows its counts with a time constant of `milliseconds`."""

    least: int = 1_000_000
    milliseconds: int = 30_000
    periods: int = 5
    needed: int = 3


class Flow(msgspec.Struct, frozen=True):
    """Smoothed bytes a second; whether they were enough in the last periods, one bit each, the newest lowest."""

    rate: int
    enough: int = 0
    talking: bool = False


Flows = Mapping[Pair, Flow]


def pair_of(one: str, other: str) -> Pair:
    return (one, other) if one < other else (other, one)


def after(flows: Flows, counted: Mapping[Pair, int], milliseconds: int, smoothing: Smoothing) -> Flows:
    """The flows after a period in which so many bytes were counted; pairs that fell silent are forgotten in the end."""
    if milliseconds <= 0:
        return flows
    return {
        pair: flow
        for pair in sorted(flows.keys() | counted.keys())
        if (flow := _flow_after(flows.get(pair, Flow(0)), counted.get(pair, 0), milliseconds, smoothing)).rate
        or flow.talking
    }


def talking(flows: Flows) -> dict[Pair, int]:
    """Who talks to whom, in bytes a second."""
    return {pair: flow.rate for pair, flow in flows.items() if flow.talking}


def _flow_after(flow: Flow, counted: int, milliseconds: int, smoothing: Smoothing) -> Flow:
    constant = smoothing.milliseconds
    rate = (flow.rate * constant + counted * 1000) // (constant + milliseconds)
    # Half of it is enough to go on.
    least = smoothing.least // 2 if flow.talking else smoothing.least
    enough = (flow.enough << 1 | (rate >= least)) & ((1 << smoothing.periods) - 1)
    is_talking = bool(enough) if flow.talking else enough.bit_count() >= smoothing.needed
    return Flow(rate, enough, is_talking)
