"""Metric families from plain samples."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

Sample = tuple[tuple[str, ...], float]


def gauge(name: str, text: str, labels: list[str], samples: Iterable[Sample]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family


def counter(name: str, text: str, labels: list[str], samples: Iterable[Sample]) -> Metric:
    """`name` without the `_total` that every counter ends in."""
    family = CounterMetricFamily(name, text, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family
