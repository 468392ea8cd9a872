"""What a record says that matters here; a message that is in none of the tables is nothing.

Up to 1.20 the managers wrote `[topologymanager] TopologyHints for pod '...'`; since 1.21 they write a fixed message and
`key=value` pairs. Both become the same `Seen`.
"""

from __future__ import annotations

from numaware.diagnose.logs import bracketed, structured
from numaware.diagnose.logs.record import Record
from numaware.diagnose.logs.seen import Seen


def read(record: Record) -> Seen | None:
    """What the record says, or None."""
    found = structured.read(record) if record.structured else bracketed.read(record)
    return found or _last_words(record)


def _last_words(record: Record) -> Seen | None:
    """An error or a fatal line that ends a kubelet; what exactly it says is for `sentences` to tell."""
    spoken = f"{record.message} {record.fields.get('err', '')}"
    if record.level not in ("E", "F", "") or not any(word in spoken for word in _ENDS):
        return None
    return Seen("failed", record, message=spoken)


_ENDS = (
    "failed to run Kubelet",
    "Failed to run kubelet",
    "Failed to start ContainerManager",
    "failed to start container manager",
    "command failed",
    "start cpu manager error",
    "start memory manager error",
)
