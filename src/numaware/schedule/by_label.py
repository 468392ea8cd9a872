"""Things that are for nodes with a certain label, found by the labels of a node.

A disk of a node is for that node alone, so there are as many as nodes: who looks at each of them for each node is done with
a thousand nodes in seconds, and with five thousand in a minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from numaware.workload.scheduling import Requirement

T = TypeVar("T")

# A label and its value; the one without a name is had by all nodes.
Where = tuple[str, str]
EVERYWHERE: tuple[Where, ...] = (("", ""),)


class ByLabel(Generic[T]):
    """Named things of several kinds."""

    def __init__(self) -> None:
        self._where: dict[str, tuple[str, tuple[Where, ...]]] = {}
        # By kind, label, value and name.
        self._things: dict[str, dict[str, dict[str, dict[str, T]]]] = {}

    def put(self, kind: str, name: str, thing: T, where: Iterable[Where]) -> None:
        """It is new: for nodes that have one of these labels, and perhaps not for all of them."""
        wanted = tuple(dict.fromkeys(where))
        self._where[name] = kind, wanted
        for key, value in wanted:
            self._things.setdefault(kind, {}).setdefault(key, {}).setdefault(value, {})[name] = thing

    def drop(self, name: str) -> None:
        """It is gone; nothing happens if it was not there."""
        kind, wanted = self._where.pop(name, ("", ()))
        for key, value in wanted:
            keys = self._things[kind]
            values = keys[key]
            things = values[value]
            del things[name]
            if not things:
                del values[value]
            if not values:
                del keys[key]
            if not keys:
                del self._things[kind]

    def near(self, kind: str, labels: Mapping[str, str]) -> Iterator[T]:
        """All of the kind that may be for a node with these labels, some of them twice; whoever asks looks closely."""
        for key, values in self._things.get(kind, {}).items():
            yield from values.get(labels.get(key, ""), {}).values()


def one_of(requirements: Iterable[Requirement]) -> tuple[Where, ...]:
    """The labels of which nodes that fulfil all requirements have one."""
    for wanted in requirements:
        if wanted.operator == "In":
            return tuple((wanted.key, value) for value in wanted.values)
    return EVERYWHERE
