"""What kubelets refused in the last hour."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

from numaware.diagnose.rules.storms import Storm, StormDetector
from numaware.serve.console.world import Event, World, news

HOUR = 3_600_000
BUCKET = 300_000


class Refusals:
    """The refusals of the last hour that the world still knows, counted in every way that is shown.

    Each is counted when it comes and taken back when it is over: a storm leaves thousands of them.
    """

    def __init__(self, world: World) -> None:
        self.by_node: Counter[str] = Counter()
        # The nodes of storms that went on in the last bucket's time, and the worst of those storms.
        self.storms: set[str] = set()
        self.worst: Storm | None = None
        self._world = world
        self._last_event = -1
        self._counted: deque[Event] = deque()
        self._lately: deque[int] = deque()
        self._by_bucket: Counter[int] = Counter()
        self._detector = StormDetector()
        self._looked = -1

    @property
    def total(self) -> int:
        return len(self._counted)

    @property
    def lately(self) -> int:
        """Those of the last bucket's time."""
        return len(self._lately)

    @property
    def buckets(self) -> tuple[int, ...]:
        """Oldest first."""
        last = self._world.now // BUCKET
        return tuple(self._by_bucket[place] for place in range(last - HOUR // BUCKET + 1, last + 1))

    def refresh(self) -> None:
        """Count what is new, and forget what is over."""
        now, events = self._world.now, self._world.events
        happened = news(events, self._last_event)
        for event in happened:
            if event.kind == "refused" and event.time >= now - HOUR:
                self._count(event, 1)
                self._counted.append(event)
                self._lately.append(event.time)
                self._detector.refused(event.owner, event.node, event.reason, event.time)
        while self._counted and (self._counted[0].time < now - HOUR or self._counted[0].id < events[0].id):
            self._count(self._counted.popleft(), -1)
        while self._lately and self._lately[0] < now - BUCKET:
            self._lately.popleft()
        if happened or self._looked != now // 1000:
            self._last_event = events[-1].id if events else -1
            self._looked = now // 1000
            storms = self._detector.storms(now - BUCKET)
            self.storms = {node for storm in storms for node in storm.nodes}
            self.worst = storms[0] if storms else None

    def _count(self, event: Event, number: int) -> None:
        _add(self.by_node, event.node, number)
        _add(self._by_bucket, event.time // BUCKET, number)


def _add(counts: Counter[Any], key: str | int, number: int) -> None:
    counts[key] += number
    if not counts[key]:
        del counts[key]
