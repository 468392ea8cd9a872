"""What the scheduler and the extender count about themselves."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.registry import Collector

# Decisions take tens of microseconds, calls to an API server milliseconds.
_DECISION = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1)
_CALL = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


# Times that are kept before they are counted, should nobody ask for them.
_MOST_TIMES = 4096


class Times(Collector):
    """A histogram of times. They are counted when somebody asks: one by one, in the midst of other work, counting costs
    several times as much.
    """

    def __init__(self, name: str, documentation: str, buckets: tuple[float, ...]) -> None:
        self._histogram = Histogram(name, documentation, buckets=buckets, registry=None)
        self._new: list[float] = []

    def observe(self, seconds: float) -> None:
        self._new.append(seconds)
        if len(self._new) >= _MOST_TIMES:
            self._count()

    def describe(self) -> Iterable[Metric]:
        return self._histogram.describe()

    def collect(self) -> Iterable[Metric]:
        self._count()
        return self._histogram.collect()

    def _count(self) -> None:
        new, self._new = self._new, []
        for seconds in new:
            self._histogram.observe(seconds)


class Metrics:
    """One registry a process; names begin with `numaware_`."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.attempts = Counter(
            "numaware_scheduling_attempts",
            "Decisions by result: scheduled, unschedulable, error.",
            ["result"],
            registry=registry,
        )
        self.decision = Times(
            "numaware_decision_duration_seconds", "Time to judge and score every node for one pod.", _DECISION
        )
        self.binding = Times("numaware_bind_duration_seconds", "Time of one call that binds.", _CALL)
        self.add(self.decision)
        self.add(self.binding)
        self.predictions = Counter(
            "numaware_predictions",
            "Predicted placements by what the kubelet did: match, wrong_zone, wrong_cpus, rejected, unexpected.",
            ["outcome"],
            registry=registry,
        )
        self.storms = Counter(
            "numaware_admission_storms", "Loops of create and refuse that were found.", registry=registry
        )
        self.leader = Gauge("numaware_leader", "1 while this process leads.", registry=registry)
        self.extender = Histogram(
            "numaware_extender_request_duration_seconds",
            "Time of one request of another scheduler, by verb and result.",
            ["verb", "result"],
            buckets=_CALL,
            registry=registry,
        )

    def add(self, collector: Collector) -> None:
        """A collector that reads its numbers when asked."""
        self.registry.register(collector)
