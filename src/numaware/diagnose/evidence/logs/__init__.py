"""A kubelet's log: `scan` cuts out lines, `record` unwraps them, `messages` understands them, `journal` joins them."""

from __future__ import annotations

from collections.abc import Iterable

from numaware.diagnose.evidence.logs import messages, record
from numaware.diagnose.evidence.logs.journal import Journal
from numaware.diagnose.evidence.logs.scan import FoundLine
from numaware.diagnose.evidence.start_messages import start_failure


def read(lines: Iterable[FoundLine], file: str, journal: Journal) -> int:
    """Take a log in; the answer is how many of its lines said something."""
    said = 0
    for line in lines:
        seen = messages.read(record.read(file, line.number, line.text))
        if seen is not None:
            said += 1
            journal.add(seen)
    return said


def read_bare(text: str, file: str, journal: Journal) -> int:
    """Take in sentences of a kubelet that are quoted without the line they stood in."""
    said = 0
    for number, line in enumerate(text.splitlines(), 1):
        if not messages.may_be_bare(line):
            continue
        seen = messages.read_bare(record.read(file, number, line[:_LONGEST].encode("utf-8", "replace")))
        if seen is not None and start_failure(seen.message):
            said += 1
            journal.add(seen)
    return said


_LONGEST = 8_192
