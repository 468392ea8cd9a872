from __future__ import annotations

from prometheus_client import CollectorRegistry

from numaware.serve.metrics import _MOST_TIMES, Metrics, Times


def test_times_are_counted_when_somebody_asks_and_each_once() -> None:
    registry = CollectorRegistry()
    times = Times("wait_seconds", "How long.", (0.1, 1.0))
    registry.register(times)
    for seconds in (0.05, 0.5, 5.0):
        times.observe(seconds)
    for _ in range(2):
        assert registry.get_sample_value("wait_seconds_bucket", {"le": "0.1"}) == 1
        assert registry.get_sample_value("wait_seconds_bucket", {"le": "1.0"}) == 2
        assert registry.get_sample_value("wait_seconds_count") == 3
        assert registry.get_sample_value("wait_seconds_sum") == 5.55


def test_times_that_nobody_asks_for_do_not_pile_up() -> None:
    times = Times("wait_seconds", "How long.", (1.0,))
    for _ in range(_MOST_TIMES + 1):
        times.observe(0.5)
    assert len(times._new) == 1


def test_a_decision_is_counted_under_our_name_and_under_kube_schedulers() -> None:
    metrics = Metrics()
    metrics.decided(0.003)
    for name in ("numaware_decision_duration_seconds", "scheduler_scheduling_algorithm_duration_seconds"):
        assert metrics.registry.get_sample_value(f"{name}_sum") == 0.003
    cpu = metrics.registry.get_sample_value("process_cpu_seconds_total")
    assert cpu is not None
    assert cpu > 0
