"""Finished runs on disk, so that a long comparison that was stopped goes on where it was.

A journal is lines of JSON: what the runs were about, then one result after another. It is written anew for every
finished run, so it is never half a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from numaware import __version__
from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.schedule.profile import Profile
from numaware.simulate.clusters import ClusterSpec
from numaware.simulate.result import Result
from numaware.simulate.traces import Trace

MOST_BYTES = 1 << 30


class _Head(msgspec.Struct, frozen=True):
    """Which cluster and trace, by a hash of all there is to them, and which version played them."""

    journal: str
    version: str


def subject(cluster: ClusterSpec, trace: Trace, profile: Profile) -> str:
    """The same for the same cluster, trace and profile, and for nothing else."""
    digest = hashlib.sha256()
    for part in (cluster.name, *cluster.nodes, trace, profile):
        digest.update(repr(part).encode())
    return digest.hexdigest()


def write(about: str, results: Sequence[Result]) -> bytes:
    """The file's content."""
    return b"".join(msgspec.json.encode(line) + b"\n" for line in (_Head(about, __version__), *results))


def read(data: bytes, source: str, about: str) -> dict[tuple[str, int], Result]:
    """The finished runs by policy and seed; a journal about something else is an `InputError`."""
    lines = data.splitlines()
    try:
        head = msgspec.json.decode(lines[0] if lines else b"", type=_Head)
    except msgspec.DecodeError:
        raise InputError(f"{source}:1", "is no journal of simulate", hint="name a new file") from None
    if head != _Head(about, __version__):
        other = "another cluster, trace or version"
        raise InputError(
            f"{source}:1", f"is the journal of {other}", hint="name a new file, or remove this one"
        )
    finished = {}
    for number, line in enumerate(lines[1:], 2):
        try:
            result = msgspec.json.decode(line, type=Result)
        except msgspec.DecodeError as error:
            raise InputError(f"{source}:{number}", f"is no result: {printable(str(error), 200)}") from None
        finished[result.run.policy, result.run.seed] = result
    return finished
