"""What a record says that matters here; a message that is in none of the tables is nothing.

Up to 1.20 the managers wrote `[topologymanager] TopologyHints for pod '...'`; since 1.21 they write a fixed message and
`key=value` pairs. Both become the same `Seen`.
"""

from __future__ import annotations

import re

from numaware.diagnose.evidence.logs import bracketed, structured
from numaware.diagnose.evidence.logs.record import Record
from numaware.diagnose.evidence.logs.seen import Seen


def read(record: Record) -> Seen | None:
    """What the record says, or None."""
    seen = structured.read(record) if record.structured else bracketed.read(record)
    return seen or _last_words(record)


def _last_words(record: Record) -> Seen | None:
    """An error or fatal line may be a kubelet's last; whether it is one is for `sentences` to tell."""
    if record.level not in ("E", "F"):
        return None
    return Seen("failed", record, message=f"{record.message} {record.fields.get('err', '')}")


def may_be_bare(line: str) -> bool:
    """Whether a line is worth a look by `read_bare`; most lines are not."""
    return len(line) > _SHORTEST and _BARE.match(line.strip()[:200]) is not None


def read_bare(record: Record) -> Seen | None:
    """A line without klog's header: the last words of a kubelet as it prints them to the terminal, or as people quote them."""
    if record.level or not _BARE.match(record.message):
        return None
    return Seen("failed", record, message=record.message)


_SHORTEST = 20
# What may stand before a sentence that is quoted alone: names of programs, of errors, of managers.
_BARE = re.compile(
    r"[\W]{0,8}(?:err(?:or)?\b[:=\"' ]{1,4}|failed to run kubelet\b|failed to start containermanager\b|start (?:cpu|memory) "
    r"manager error\b|new (?:static|none) policy error\b|\[(?:cpu|memory)manager\] |could not restore state\b|configured policy "
    r"\"|not all reserved cpus\b|some of strictly reserved\b|current set of available cpus\b|the total amount \"|the reserved "
    r"memory configuration\b|unsupported on machines\b|unknown (?:cpu|topology) manager policy option\b|(?:cpu|topology) manager "
    r"policy (?:alpha|beta)\b|static policy options\b|unable to (?:determine reserved|reserve the required)\b|invalid "
    r"configuration: |cannot discover NUMA topology\b|policy \"|unrecognized feature gate\b|cannot set feature gate\b)",
    re.IGNORECASE,
)
