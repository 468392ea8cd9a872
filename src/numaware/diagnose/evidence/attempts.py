"""One refused pod as events, pod statuses and tables of kubectl show it; `kube_objects` and `kubectl_text` make them."""

from __future__ import annotations

import msgspec

from numaware.diagnose.evidence.logs.seen import PodName
from numaware.diagnose.evidence.meaning import Meaning
from numaware.diagnose.finding import Evidence


class Attempt(msgspec.Struct, frozen=True):
    """One refused pod, or `count` alike. `controller` is its owner, as `StatefulSet/web`; seconds count in the year."""

    pod: PodName
    meaning: Meaning
    evidence: Evidence
    node: str = ""
    reason: str = ""
    count: int = 1
    seconds: float | None = None
    stamp: str = ""
    controller: str = ""
