"""What `intake` has read of all files, by kind; `rules/diagnosis` judges it as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

import msgspec

from numaware.diagnose.evidence.logs.journal import Journal
from numaware.diagnose.evidence.logs.seen import PodName
from numaware.diagnose.evidence.meaning import Meaning
from numaware.diagnose.finding import Evidence, Finding
from numaware.machine.topology import Machine
from numaware.sentence import Sentence
from numaware.twin.settings import Settings
from numaware.twin.state.verify import Checkpoint
from numaware.workload.manifest import Workload

_Content = TypeVar("_Content")


class Attempt(msgspec.Struct, frozen=True):
    """One refused pod as events, statuses and tables of kubectl show it, or `count` alike. `controller` is its owner, as `StatefulSet/web`; seconds count in the year."""

    pod: PodName
    meaning: Meaning
    evidence: Evidence
    node: str = ""
    reason: str = ""
    count: int = 1
    seconds: float | None = None
    stamp: str = ""
    controller: str = ""


class Piece(NamedTuple, Generic[_Content]):
    """What one file holds."""

    file: str
    content: _Content


class StateFile(NamedTuple):
    """A state file as the kubelet reads it, and as bytes for the twin."""

    name: str
    data: bytes
    checkpoint: Checkpoint


class Reported(NamedTuple):
    """A node's topology object: nano-units available by NUMA node and resource, and the NUMA node of each CPU."""

    node: str
    policy: str = ""
    scope: str = ""
    zones: Mapping[int, Mapping[str, int]] = MappingProxyType({})
    numa_of_cpus: Mapping[int, int] = MappingProxyType({})


class Cut(NamedTuple):
    """Why a file could not be read to its end, how many bytes of it were, and the last member of an archive that was reached."""

    problem: Sentence
    read: int
    member: str = ""


@dataclass
class Bundle:
    """Everything by kind. `findings` are those that a file gives by itself, `cuts` the files that were not read whole.

    `unknown` says of files that are no evidence what they are instead: a `state` and its facts.
    """

    journal: Journal = field(default_factory=Journal)
    attempts: list[Attempt] = field(default_factory=list)
    settings: list[Piece[Settings]] = field(default_factory=list)
    states: list[Piece[StateFile]] = field(default_factory=list)
    machines: list[Piece[Machine]] = field(default_factory=list)
    reports: list[Piece[Reported]] = field(default_factory=list)
    workloads: list[Piece[Workload]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    files: list[tuple[str, str]] = field(default_factory=list)
    cuts: dict[str, Cut] = field(default_factory=dict)
    unknown: dict[str, dict[str, object]] = field(default_factory=dict)


def about(pieces: Sequence[Piece[_Content]], node: str) -> Piece[_Content] | None:
    """The piece that is about a node: one kept under its name, or the only one there is."""
    named = [piece for piece in pieces if node and node in piece.file]
    if len(named) == 1:
        return named[0]
    return pieces[0] if len(pieces) == 1 else None
