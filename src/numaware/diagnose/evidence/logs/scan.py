"""The few lines of a log that can matter, found without looking at the others.

Kubelet logs reach gigabytes, and one line in thousands says something about NUMA nodes. So a log is read in large
pieces, and each piece is searched for a handful of byte strings: every message that `messages` knows holds one of them
in its text or in the name of the source file before it. Only lines with a hit are cut out; memory stays at one piece.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import IO, NamedTuple

PIECE = 1 << 18
# No message of interest is longer; more is somebody's binary file.
LONGEST_LINE = 1 << 16
# A value of several lines (`err=<` ... ` >`), or a line that a terminal or a mail folded.
MOST_FOLDS = 40
_NARROWEST, _FEWEST_FOLDS = 60, 3

ANCHORS = (
    b"opolog",  # the Topology Manager, TopologyAffinityError, flags
    b"olicy",  # policy_static.go, policy.go, "Starting CPU manager" policy=
    b"pdated de",  # updated desired, updated default: CPU sets
    b"lignment",  # SMTAlignmentError
    b"nexpected",  # UnexpectedAdmissionError, ListAndWatch ended unexpectedly
    b"OutOf",
    b"Predicate f",  # the node as a whole is full
    b"SyncLoop ADD",
    b"Receiving a new",
    b"then recreated",
    b"ailed to run",
    b"ContainerManager",
    b"emory manager",  # Failed to initialize memory manager
    b"ubelet exited",  # k3s and RKE2, which run the kubelet inside
    b"Starting k3s",
    b"Starting rke2",
    b"evice plugin",
    b"ubeletVersion",
)
# How a line of a log begins when it is not the continuation of the one before: a date, a klog header, a JSON object, the
# name of a program, a prompt or a column of `kubectl`.
_BEGINNING = re.compile(
    rb"\s*(?:\{\"(?:ts|time|log|level|insertId|MESSAGE|_)|[IWEF]\d{4} |\d{4}-\d\d-\d\d[T ]|[A-Z][a-z]{2} [ \d]\d \d\d:|[\w.-]{1,40}\[\d{1,9}\]: |(?:Normal|Warning)\s)"
)


class FoundLine(NamedTuple):
    """A line with its number, counted from 1, without its end."""

    number: int
    text: bytes


def lines(stream: IO[bytes], number: int = 1) -> Iterator[FoundLine]:
    """The lines that hold an anchor, in order; `number` is the first line's."""
    rest = b""
    while True:
        piece = stream.read(PIECE)
        if not piece:
            if rest:
                yield from _hits(rest, number)
            return
        cut = piece.rfind(b"\n") + 1
        if not cut:
            # A line without end: keep its beginning, which is all that could be read of it.
            rest = (rest + piece)[: 2 * LONGEST_LINE]
            continue
        whole = rest + piece[:cut]
        yield from _hits(whole, number)
        number += whole.count(b"\n")
        rest = piece[cut:]


def unfolded(text: bytes) -> list[FoundLine] | None:
    """All lines of a text that a terminal folded at its last column, joined again; None where nothing was folded.

    Such a text has many lines of one length, the greatest, after which another goes on without beginning anew.
    """
    given = text.splitlines()
    width = max(map(len, given), default=0)
    goes_on = [
        len(line) == width and bool(after.strip()) and not _BEGINNING.match(after)
        for line, after in itertools.pairwise(given)
    ]
    if width < _NARROWEST or sum(goes_on) < _FEWEST_FOLDS:
        return None
    joined: list[FoundLine] = []
    for number, line in enumerate(given, 1):
        folded = number > 1 and goes_on[number - 2]
        if folded and len(joined[-1].text) < LONGEST_LINE:
            joined[-1] = FoundLine(joined[-1].number, joined[-1].text + line)
        else:
            joined.append(FoundLine(number, line))
    return joined


def _hits(piece: bytes, number: int) -> Iterator[FoundLine]:
    """The lines with hits in a piece that begins and ends at a line's end; `number` is the first line's."""
    places: set[int] = set()
    for anchor in ANCHORS:
        at = piece.find(anchor)
        while at >= 0:
            start = piece.rfind(b"\n", 0, at) + 1
            places.add(start)
            end = piece.find(b"\n", at)
            if end < 0:
                break
            at = piece.find(anchor, end)
    counted, taken = 0, 0
    for start in sorted(places):
        if start < taken:
            continue
        number += piece.count(b"\n", counted, start)
        counted = start
        text, taken = _unfolded(piece, start)
        yield FoundLine(number, text)


def _unfolded(piece: bytes, start: int) -> tuple[bytes, int]:
    """The line at `start` with what belongs to it on the following lines, and where the next one begins."""
    end = piece.find(b"\n", start)
    end = len(piece) if end < 0 else end
    text = piece[start : min(end, start + LONGEST_LINE)].rstrip(b"\r")
    if not _is_open(text):
        return text, end + 1
    parts, width = [text], len(text)
    for _ in range(MOST_FOLDS):
        following = piece.find(b"\n", end + 1)
        following = len(piece) if following < 0 else following
        more = piece[end + 1 : min(following, end + 1 + LONGEST_LINE)].rstrip(b"\r")
        if end + 1 >= len(piece) or not more.strip() or _BEGINNING.match(more):
            break
        # A terminal breaks at its last column, wherever that is; people and programs break at blanks.
        hard = len(parts[-1]) == width and not parts[-1].endswith(b"<")
        parts.append(more if hard else b" " + more.strip())
        end = following
        if not _is_open(b"".join(parts)):
            break
    return b"".join(parts)[:LONGEST_LINE], end + 1


def _is_open(text: bytes) -> bool:
    """Whether something begun in the line is not ended in it: a quoted text, a list of hints, a value of many lines."""
    return (
        text.endswith(b"=<")
        or (b"=<" in text and not text.rstrip().endswith(b">"))
        or text.count(b'"') - text.count(b'\\"') & 1 == 1
        or text.count(b"[") > text.count(b"]")
        or text.count(b"{") > text.count(b"}")
    )
