"""What a picture consists of: nested boxes, cores, matrices and lines of words, with no idea of how they are rendered.

Every renderer shows the same words, so that a terminal, a page and a screen reader tell the same story.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from numaware.machine.cpuset import EMPTY, CpuSet
from numaware.machine.topology import CoreKind

# From the outside in. A "switch" is a PCIe bridge that several devices share.
Role = Literal["package", "numa", "cache", "cores", "switch", "device"]


class Core(msgspec.Struct, frozen=True):
    """One core and its threads; the three subsets are what a person must not overlook.

    A source that does not tell which CPUs share a core gives each its own, which is then not `known` to be one.
    """

    threads: CpuSet
    kind: CoreKind | None = None
    offline: CpuSet = EMPTY
    isolated: CpuSet = EMPTY
    forbidden: CpuSet = EMPTY
    known: bool = True

    @property
    def marks(self) -> tuple[str, ...]:
        """What is special about the core in words, the gravest first."""
        named = (("offline", self.offline), ("not allowed", self.forbidden), ("isolated", self.isolated))
        return tuple(what if cpus == self.threads else f"partly {what}" for what, cpus in named if cpus)


class Box(msgspec.Struct, frozen=True):
    """A named part of the machine.

    `sentences` say the cores in words, for renderers that do not draw every one of them; `hue` is the NUMA node that
    gives the box its colour; `copies` is how many alike parts are folded into it.
    """

    role: Role
    title: str
    aside: str = ""
    facts: tuple[str, ...] = ()
    hue: int | None = None
    cores: tuple[Core, ...] = ()
    sentences: tuple[str, ...] = ()
    children: tuple[Box, ...] = ()
    copies: int = 1

    def all_cores(self) -> list[Core]:
        """Its own cores and those of all boxes inside it."""
        return [*self.cores, *(core for child in self.children for core in child.all_cores())]


class Cell(msgspec.Struct, frozen=True):
    """One value of a matrix; `heat` runs from 0 (near) to 4 (far), and the text says the same again."""

    text: str
    heat: int | None = None


class Matrix(msgspec.Struct, frozen=True):
    """A table of values between named things."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    caption: str = ""


class Picture(msgspec.Struct, frozen=True):
    """A machine, ready to be rendered.

    `distances` and `links` hold the same matrix from full to most condensed: a renderer takes the first that fits.
    """

    title: str
    summary: tuple[str, ...] = ()
    boxes: tuple[Box, ...] = ()
    unplaced: tuple[Box, ...] = ()
    distances: tuple[Matrix, ...] = ()
    links: tuple[Matrix, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
