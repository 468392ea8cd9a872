"""All metrics of the node as one text, and what went wrong while they were read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator

from numaware import __version__
from numaware.errors import InputError
from numaware.machine.sysfs.source import Source
from numaware.machine.tree import open_tree
from numaware.node.exporter.families import Exposition, Family, counter, gauge, info
from numaware.node.exporter.machine import MachineMetrics
from numaware.node.exporter.pods import pod_metrics
from numaware.node.podresources import Allocatable, PodHoldings, PodResources, PodResourcesError
from numaware.node.publisher import Counts
from numaware.node.troubles import SOURCES, Troubles
from numaware.twin.config import KubeletConfig

# A scrape has ten seconds at most; a kubelet that hangs must not take them all.
_KUBELET_SECONDS = 3.0


class Exporter:
    """Await `prepare` before each `text`: asking the kubelet takes a while, and writing may not wait."""

    def __init__(
        self,
        node: str,
        root: str,
        troubles: Troubles,
        *,
        service: PodResources | None = None,
        config: Callable[[], KubeletConfig | None] = lambda: None,
        counts: Counts | None = None,
        most_pods: int = 500,
        more: Callable[[], Iterable[Family]] = tuple,
    ) -> None:
        self._root = root
        self._troubles = troubles
        self._service = service
        self._config = config
        self._counts = counts
        self._most_pods = most_pods
        self._more = more
        self._machine = MachineMetrics(root)
        # What the kubelet answered for this scrape; who holds what is None if it did not.
        self._held: tuple[PodHoldings, ...] | None = None
        self._allocatable: Allocatable | None = None
        self._exposition = Exposition(node)

    async def prepare(self) -> None:
        """Ask the kubelet who holds what."""
        if self._service is None:
            return
        held, allocatable = None, None
        try:
            async with asyncio.timeout(_KUBELET_SECONDS):
                held, allocatable = await asyncio.gather(self._service.pods(), self._service.allocatable())
        except PodResourcesError as error:
            self._troubles.raised("scrape", error.cause, str(error))
        except TimeoutError:
            message = f"{self._service.socket}: no answer in {_KUBELET_SECONDS:g} s"
            self._troubles.raised("scrape", "timeout", message)
        else:
            self._troubles.cleared("scrape")
        self._held, self._allocatable = held, allocatable

    def text(self, *, openmetrics: bool) -> bytes:
        """What a scraper reads; `web.status_routes` asks for it."""
        return self._exposition.encode(self._families(), openmetrics=openmetrics)

    def _families(self) -> Iterator[Family]:
        try:
            source = Source(open_tree(self._root))
            yield from list(self._machine.collect(source))
            if self._service is not None:
                machine, most = self._machine.machine(), self._most_pods
                yield from list(pod_metrics(source, machine, self._held, self._allocatable, most))
            if source.warnings:
                self._troubles.raised("sysfs", "unreadable", source.warnings[0])
            else:
                self._troubles.cleared("sysfs")
        except InputError as error:
            self._troubles.raised("sysfs", "invalid", str(error))
        config = self._config()
        if config is not None:
            yield info(
                "numa_topology_policy",
                "How the kubelet aligns pods.",
                ["policy", "scope", "cpu_manager", "memory_manager"],
                [(config.topology_policy, config.topology_scope, config.cpu_policy, config.memory_policy)],
            )
        yield from self._more()
        yield from self._self()

    def _self(self) -> Iterator[Family]:
        yield info("numa_exporter_build", "This program.", ["version"], [(__version__,)])
        yield counter(
            "numa_exporter_scrape_errors",
            "Times that something could not be read or written, by what it was.",
            ["source"],
            [((source,), self._troubles.counts.get(source, 0)) for source in SOURCES],
        )
        yield gauge(
            "numa_exporter_trouble",
            "1 while something is wrong, by what it is.",
            ["source", "cause"],
            [((source, cause), 1.0) for source, (cause, _) in sorted(self._troubles.current.items())],
        )
        if self._counts is not None:
            counts = self._counts
            yield counter("numaware_agent_writes", "Writes to the API server.", [], [((), counts.writes)])
            yield counter("numaware_agent_scans", "Looks at the kubelet.", [], [((), counts.scans)])
            yield gauge(
                "numaware_agent_last_success_timestamp_seconds",
                "When what is published was last known to be true.",
                [],
                [((), counts.last_success)] if counts.last_success else [],
            )
            yield gauge(
                "numaware_agent_scan_duration_seconds",
                "Time that the last look at the kubelet took, writing included.",
                [],
                [((), counts.last_seconds)],
            )
