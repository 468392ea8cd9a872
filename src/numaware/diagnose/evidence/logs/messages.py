"""What the records of a log say, handed to the journal; a message that is in none of the tables is nothing.

Up to 1.20 the managers wrote `[topologymanager] TopologyHints for pod '...'`; since 1.21 they write a fixed message and
`key=value` pairs. Both become the same `Seen`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from numaware.diagnose.evidence.logs import bracketed, record, structured
from numaware.diagnose.evidence.logs.journal import Journal
from numaware.diagnose.evidence.logs.scan import FoundLine
from numaware.diagnose.evidence.logs.seen import Seen
from numaware.diagnose.evidence.start_messages import start_failure

_SHORTEST, _LONGEST = 20, 8_192
# What may stand before a sentence that is quoted alone: names of programs, of errors, of managers.
_BARE = re.compile(
    r"[\W]{0,8}(?:err(?:or)?\b[:=\"' ]{1,4}|failed to run kubelet\b|failed to start containermanager\b|failed to initialize memory manager\b|kubelet exited\b|start (?:cpu|memory) "
    r"manager error\b|new (?:static|none) policy error\b|\[(?:cpu|memory)manager\] |could not restore state\b|configured policy "
    r"\"|not all reserved cpus\b|some of strictly reserved\b|current set of available cpus\b|the total amount \"|the reserved "
    r"memory configuration\b|unsupported on machines\b|unknown (?:cpu|topology) manager policy option\b|(?:cpu|topology) manager "
    r"policy (?:alpha|beta)\b|static policy options\b|unable to (?:determine reserved|reserve the required)\b|invalid "
    r"configuration: |cannot discover NUMA topology\b|policy \"|unrecognized feature gate\b|cannot set feature gate\b)",
    re.IGNORECASE,
)


def read(lines: Iterable[FoundLine], file: str, journal: Journal) -> int:
    """Take a log in; the answer is how many of its lines said something."""
    said = 0
    for line in lines:
        seen = seen_in(record.read(file, line.number, line.text))
        if seen is not None:
            said += 1
            journal.add(seen)
    return said


def seen_in(line: record.Record) -> Seen | None:
    """What a record says, or None; an error or fatal line may be a kubelet's last, as `start_failure` will tell."""
    seen = structured.read(line) if line.structured else bracketed.read(line)
    if seen is None and line.level in ("E", "F"):
        message = f"{line.message} {line.fields.get('err', '')}"
        if isinstance(line.rest, str) and start_failure(message) is None:
            # Quoted by a person, whose quotes inside the error lost their backslashes.
            message = f"{line.message} {line.rest}"
        return Seen("failed", line, message=message)
    return seen


def read_bare(text: str, file: str, journal: Journal) -> int:
    """Take in last words of a kubelet that are quoted without klog's header, as it prints them to a terminal."""
    said = 0
    for number, given in enumerate(text.splitlines(), 1):
        if len(given) <= _SHORTEST or not _BARE.match(given.strip()[:200]):
            continue
        line = record.read(file, number, given[:_LONGEST].encode("utf-8", "replace"))
        if not line.level and _BARE.match(line.message) and start_failure(line.message):
            said += 1
            journal.add(Seen("failed", line, message=line.message))
    return said
