"""What Prometheus hears of the device plugin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from numaware.node.device_plugin.server import ResourceServer
from numaware.node.troubles import PLUGIN_SOURCES, Troubles

Family = CounterMetricFamily | GaugeMetricFamily


class Plugin(Protocol):
    """What is counted."""

    @property
    def servers(self) -> dict[str, ResourceServer]: ...

    @property
    def troubles(self) -> Troubles: ...


class _Collector(Collector):
    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin

    def collect(self) -> Iterator[Family]:
        devices = GaugeMetricFamily(
            "numaware_device_plugin_devices",
            "Devices as they are announced, replicas counted; numa is empty where no NUMA node is known.",
            labels=["resource", "numa", "health"],
        )
        registered = GaugeMetricFamily(
            "numaware_device_plugin_registered",
            "1 while the kubelet knows the resource and listens.",
            labels=["resource"],
        )
        registrations = CounterMetricFamily(
            "numaware_device_plugin_registrations", "Times that the kubelet was told.", labels=["resource"]
        )
        allocations = CounterMetricFamily(
            "numaware_device_plugin_allocations",
            "Calls of Allocate by their outcome.",
            labels=["resource", "outcome"],
        )
        for name, server in sorted(self._plugin.servers.items()):
            counts = Counter(
                ("" if one.numa is None else str(one.numa), "healthy" if one.healthy else "unhealthy")
                for one in server.offer.listed()
            )
            for (numa, health), count in sorted(counts.items()):
                devices.add_metric([name, numa, health], count)
            registered.add_metric([name], float(server.registered is not None))
            registrations.add_metric([name], server.registrations)
            for outcome in ("answered", "unknown", "unhealthy"):
                allocations.add_metric([name, outcome], server.allocations[outcome])
        trouble = GaugeMetricFamily(
            "numaware_device_plugin_trouble",
            "1 while something is wrong, by what it is.",
            labels=["source", "cause"],
        )
        failures = CounterMetricFamily(
            "numaware_device_plugin_failures",
            "Times that something failed, by what it was.",
            labels=["source"],
        )
        troubles = self._plugin.troubles
        for source in PLUGIN_SOURCES:
            failures.add_metric([source], troubles.counts[source])
            if source in troubles.current:
                trouble.add_metric([source, troubles.current[source][0]], 1)
        yield from (devices, registered, registrations, allocations, trouble, failures)


def registry_of(plugin: Plugin) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_Collector(plugin))
    return registry
