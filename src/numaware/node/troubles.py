"""What is wrong at the moment, by source: logged when it begins and when it ends, counted each time.

A node without its kubelet would otherwise write the same line every few seconds, and the one that matters gets lost.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal, get_args

import structlog

from numaware.machine.words import printable

# The kubelet's answers to the publisher and (scrape) to the exporter, its files, what they come to together, its
# configuration, the API server, the pods, slices of DRA and what is published there, and the machine; what pods say to each other, the plan
# for that, the container runtime that carries it out, pages that follow, and what the cluster is told of that and says to it.
Source = Literal[
    "affinity",
    "api",
    "cluster",
    "configuration",
    "files",
    "migration",
    "observation",
    "podresources",
    "pods",
    "published",
    "runtime",
    "scrape",
    "slices",
    "sysfs",
    "traffic",
]
SOURCES: tuple[Source, ...] = get_args(Source)
# Of the device plugin: the driver of GPUs, the kubelet that it registers with, and a look at the machine.
PluginSource = Literal["driver", "registration", "survey"]
PLUGIN_SOURCES: tuple[PluginSource, ...] = get_args(PluginSource)


class Troubles:
    """Current troubles by their source, and how often each source failed."""

    def __init__(self, logger: str = "numaware.agent") -> None:
        self.counts: Counter[Source | PluginSource] = Counter()
        self.current: dict[Source | PluginSource, tuple[str, str]] = {}
        self._log = structlog.get_logger(logger)

    def raised(self, source: Source | PluginSource, cause: str, message: str) -> None:
        """Something failed; a cause that is known already is only counted. Causes are few words: they are labels of metrics."""
        self.counts[source] += 1
        known = self.current.get(source)
        self.current[source] = (cause, message)
        if known is None or known[0] != cause:
            self._log.warning("trouble", source=source, cause=cause, message=printable(message, 600))

    def cleared(self, source: Source | PluginSource) -> None:
        """It worked."""
        known = self.current.pop(source, None)
        if known is not None:
            self._log.info("trouble is over", source=source, cause=known[0])
