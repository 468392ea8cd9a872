"""Metric families as plain samples, and the text that a scraper reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Literal, NamedTuple

from prometheus_client.utils import floatToGoString

Sample = tuple[tuple[str, ...], float]
Kind = Literal["gauge", "counter", "info"]

_ENDS = {"gauge": "", "counter": "_total", "info": "_info"}


class Family(NamedTuple):
    """One metric of this node, whose name is a label of every sample and added when it is written.

    `name` is without the ending that counters and infos have.
    """

    kind: Kind
    name: str
    text: str
    labels: Sequence[str]
    samples: Sequence[Sample]


gauge = partial(Family, "gauge")
counter = partial(Family, "counter")


def info(name: str, text: str, labels: Sequence[str], things: Iterable[tuple[str, ...]]) -> Family:
    """Things that are told by their labels alone; `name` without the `_info`."""
    return Family("info", name, text, labels, [(values, 1.0) for values in things])


class Exposition:
    """Families of the node called `node` as text, byte for byte as the client library writes them.

    That library puts every label of every sample together anew, which takes longer than to read all that a scrape tells.
    Here the beginnings of lines are kept from one scrape to the next: names of pods change more rarely than numbers.
    """

    def __init__(self, node: str) -> None:
        self._node = node
        self._begins: dict[tuple[str, tuple[str, ...]], str] = {}

    def encode(self, families: Iterable[Family], *, openmetrics: bool) -> bytes:
        """OpenMetrics, or else Prometheus' own text format."""
        before, self._begins = self._begins, {}
        lines: list[str] = []
        for kind, name, text, labels, samples in families:
            full = name + _ENDS[kind]
            titled = name if openmetrics else full
            shown = kind if openmetrics or kind != "info" else "gauge"
            lines.append(f"# HELP {titled} {text}\n# TYPE {titled} {shown}\n")
            for values, number in samples:
                key = full, values
                begin = before.get(key) or _begin(full, ("node", *labels), (self._node, *values))
                self._begins[key] = begin
                lines.append(f"{begin} {_number(number)}\n")
        if openmetrics:
            lines.append("# EOF\n")
        return "".join(lines).encode()


def _number(value: float) -> str:
    text: str = floatToGoString(value)  # type: ignore[no-untyped-call] # the library has no types here
    return text


def _begin(name: str, labels: tuple[str, ...], values: tuple[str, ...]) -> str:
    pairs = [f'{label}="{_escaped(value)}"' for label, value in sorted(zip(labels, values, strict=True))]
    return f"{name}{{{','.join(pairs)}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
