"""What the scheduler and the extender count about themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, ProcessCollector
from prometheus_client.registry import Collector

Result = Literal["scheduled", "unschedulable", "error"]

# Decisions take tens of microseconds, calls to an API server milliseconds.
_DECISION = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1)
# As kube-scheduler has them: one attempt, and all of a pod's way.
_ATTEMPT = tuple(0.001 * 2**power for power in range(15))
_WAY = tuple(0.01 * 2**power for power in range(20))
_ATTEMPTS = (1, 2, 4, 8, 16)
# More attempts are counted as so many, lest each number be a series of its own.
_MOST_ATTEMPTS = 16
# As client-go has them.
_REQUEST = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
_CALL = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


# Times that are kept before they are counted, should nobody ask for them.
_MOST_TIMES = 4096


class Times(Collector):
    """A histogram of times. They are counted when somebody asks: one by one, in the midst of other work, counting costs
    several times as much.
    """

    def __init__(
        self, name: str, documentation: str, buckets: tuple[float, ...], labels: tuple[str, ...] = ()
    ) -> None:
        self._histogram = Histogram(name, documentation, labels, buckets=buckets, registry=None)
        self._new: list[tuple[float, tuple[str, ...]]] = []

    def observe(self, seconds: float, *labels: str) -> None:
        """One more; `labels` are values in the order of their names."""
        self._new.append((seconds, labels))
        if len(self._new) >= _MOST_TIMES:
            self._count()

    def describe(self) -> Iterable[Metric]:
        return self._histogram.describe()

    def collect(self) -> Iterable[Metric]:
        self._count()
        return self._histogram.collect()

    def _count(self) -> None:
        new, self._new = self._new, []
        for seconds, labels in new:
            (self._histogram.labels(*labels) if labels else self._histogram).observe(seconds)


class Metrics:
    """One registry a process; names begin with `numaware_`, or are kube-scheduler's where they mean the same."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        # CPU seconds, memory and open files of the process, as every program has them.
        ProcessCollector(registry=registry)
        self.attempts = Counter(
            "numaware_scheduling_attempts",
            "Decisions by result: scheduled, unschedulable, error.",
            ["result"],
            registry=registry,
        )
        self._decision = Times(
            "numaware_decision_duration_seconds", "Time to judge and score every node for one pod.", _DECISION
        )
        self._algorithm = Times(
            "scheduler_scheduling_algorithm_duration_seconds", "Time of one decision.", _ATTEMPT
        )
        self.binding = Times("numaware_bind_duration_seconds", "Time of one call that binds.", _CALL)
        self.predictions = Counter(
            "numaware_predictions",
            "Predicted placements by what the kubelet did: match, wrong_zone, wrong_cpus, rejected, unexpected.",
            ["outcome"],
            registry=registry,
        )
        self.storms = Counter(
            "numaware_admission_storms", "Loops of create and refuse that were found.", registry=registry
        )
        self._leader = Gauge("numaware_leader", "1 while this process leads.", registry=registry)
        self._master = Gauge(
            "leader_election_master_status",
            "1 while this process leads, as client-go has it.",
            ["name"],
            registry=registry,
        )
        self._kube_attempts = Counter(
            "scheduler_schedule_attempts",
            "Attempts to schedule pods, by result (scheduled, unschedulable, error) and profile.",
            ["result", "profile"],
            registry=registry,
        )
        self._attempt = Times(
            "scheduler_scheduling_attempt_duration_seconds",
            "Time of one attempt: the decision and, where there is one, the bind.",
            _ATTEMPT,
            ("result", "profile"),
        )
        self._way = Times(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from a pod's arrival, or from when its gates opened, to its bind.",
            _WAY,
            ("attempts",),
        )
        self._pod_attempts = Times(
            "scheduler_pod_scheduling_attempts", "Attempts until a pod was bound.", _ATTEMPTS
        )
        self._requests = Counter(
            "rest_client_requests",
            "Calls to the API server by code, method and host, as client-go has it.",
            ["code", "method", "host"],
            registry=registry,
        )
        self._request = Times(
            "rest_client_request_duration_seconds",
            "Time of a call, as client-go has it.",
            _REQUEST,
            ("verb", "host"),
        )
        for times in (
            self._request,
            self._decision,
            self.binding,
            self._algorithm,
            self._attempt,
            self._way,
            self._pod_attempts,
        ):
            self.add(times)
        self.extender = Histogram(
            "numaware_extender_request_duration_seconds",
            "Time of one request of another scheduler, by verb and result.",
            ["verb", "result"],
            buckets=_CALL,
            registry=registry,
        )

    def lead(self, *, leads: bool) -> None:
        """Whether this process leads."""
        self._leader.set(leads)
        self._master.labels("numaware-scheduler").set(leads)

    def decided(self, seconds: float) -> None:
        """A decision took so long."""
        self._decision.observe(seconds)
        self._algorithm.observe(seconds)

    def attempted(self, result: Result, profile: str, seconds: float) -> None:
        """An attempt of a scheduler (`profile`) has come to its end."""
        self.attempts.labels(result).inc()
        self._kube_attempts.labels(result, profile).inc()
        self._attempt.observe(seconds, result, profile)

    def scheduled(self, seconds: float, attempts: int) -> None:
        """A pod has its node, so long after it came, with the last of so many attempts."""
        self._way.observe(seconds, str(min(attempts, _MOST_ATTEMPTS)))
        self._pod_attempts.observe(attempts)

    def called(self, host: str, method: str, status: int, seconds: float) -> None:
        """A call to the API server at `host` was made; its status is 0 where no answer came."""
        self._requests.labels(str(status) if status else "<error>", method, host).inc()
        self._request.observe(seconds, method, host)

    def add(self, collector: Collector) -> None:
        """A collector that reads its numbers when asked."""
        self.registry.register(collector)
