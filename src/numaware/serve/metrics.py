"""What the scheduler and the extender count about themselves."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.registry import Collector

# Decisions take tens of microseconds, calls to an API server milliseconds.
_DECISION = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1)
_CALL = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


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
        self.decision = Histogram(
            "numaware_decision_duration_seconds",
            "Time to judge and score every node for one pod.",
            buckets=_DECISION,
            registry=registry,
        )
        self.binding = Histogram(
            "numaware_bind_duration_seconds", "Time of one call that binds.", buckets=_CALL, registry=registry
        )
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
