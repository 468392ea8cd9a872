"""Volcano and openFuyao's NUMA package in a cluster: whether all their parts are there, and whether Volcano heeds NUMA at all.

`doctor --cluster` looks at all of it; `why-pending` asks for the findings that keep a pod of Volcano's from being placed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from numaware.diagnose.doctor.check import Check, checked
from numaware.diagnose.doctor.component import Component, about, unready
from numaware.diagnose.finding import Finding, Message

# The plugin in Volcano's configuration: on, off, or not known because the configuration may not be read.
NumaAware = Literal["on", "off", "unknown", "no-volcano"]

NAMESPACE = "volcano-system"
# Who places pods, admits jobs and makes pods of them.
VOLCANO = ("volcano-scheduler", "volcano-controllers", "volcano-admission")
# What openFuyao's guide lists beside them.
OPENFUYAO = ("volcano-exporter", "volcano-config", "volcano-config-website", "numa-exporter", "numaadj")


def component_of(namespace: str, pod: str) -> str:
    """The part that a pod belongs to, by its name; empty for other pods. `numaadj` may be in any namespace."""
    parts = (*VOLCANO, *OPENFUYAO) if namespace == NAMESPACE else ("numaadj",)
    # A scheduler's pod may be called volcano-schedulers-…, and one that only prepares another is none of them.
    named = [part for part in parts if pod.startswith((f"{part}-", f"{part}s-"))]
    return "" if pod.startswith("volcano-admission-init") else max(named, key=len, default="")


def examine(components: Sequence[Component], numa_aware: NumaAware) -> Iterator[Check]:
    """One check where any part is there, none in other clusters."""
    parts = [one for one in components if one.name in (*VOLCANO, *OPENFUYAO)]
    if not parts and numa_aware == "no-volcano":
        return
    shown = [f"{one.name} {one.ready}/{one.pods}" for one in parts]
    facts = {"parts": shown or ["0"], "plugin": Message(f"numa-aware-{numa_aware}")}
    yield checked(
        "volcano", Message("doctor-volcano", facts), [*findings(components, numa_aware), *_package(parts)]
    )


def findings(components: Sequence[Component], numa_aware: NumaAware) -> Iterator[Finding]:
    """What keeps Volcano from placing pods by NUMA nodes."""
    known = {one.name: one for one in components}
    missing = [name for name in VOLCANO if name not in known]
    if missing:
        yield about("component-missing", {"component": "Volcano", "parts": missing}, "volcano")
    for name in VOLCANO:
        if name in known:
            yield from unready(known[name])
    if numa_aware == "off":
        yield about("numa-aware-off", {})


def _package(parts: Sequence[Component]) -> Iterator[Finding]:
    """Of openFuyao's package, which a cluster has as a whole or not at all."""
    known = {one.name: one for one in parts if one.name in OPENFUYAO}
    missing = [name for name in OPENFUYAO if name not in known]
    if known and missing:
        yield about("component-missing", {"component": "openFuyao", "parts": missing}, "openfuyao")
    for one in known.values():
        yield from unready(one)
