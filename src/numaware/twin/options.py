"""Policy options of the CPU and Topology Managers: which exist in which release, what they need, what they exclude.

Mirrors `cpumanager/policy_options.go` and `topologymanager/policy_options.go` of v1.22 to v1.36. Each parser returns
the options as a value, or the kubelet's error text. Go walks its map of options in random order, so that of several
bad options the kubelet names any one; here it is the first by name.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from numaware.twin.config import Options
from numaware.twin.gates import GATES, Gates, Stage, enabled
from numaware.twin.gotext import parse_bool, parse_int, quoted
from numaware.twin.rules import rules_for

FULL_PCPUS_ONLY = "full-pcpus-only"
DISTRIBUTE_ACROSS_NUMA = "distribute-cpus-across-numa"
ALIGN_BY_SOCKET = "align-by-socket"
DISTRIBUTE_ACROSS_CORES = "distribute-cpus-across-cores"
STRICT_RESERVATION = "strict-cpu-reservation"
PREFER_ALIGN_UNCORE = "prefer-align-cpus-by-uncorecache"
PREFER_CLOSEST = "prefer-closest-numa-nodes"
MAX_ALLOWABLE = "max-allowable-numa-nodes"

DEFAULT_MAX_ALLOWABLE = 8

# Option -> (first minor version, stage), ascending.
Stages = dict[str, tuple[tuple[int, Stage], ...]]

CPU_STAGES: Stages = {
    FULL_PCPUS_ONLY: ((22, "alpha"), (23, "beta"), (33, "stable")),
    DISTRIBUTE_ACROSS_NUMA: ((23, "alpha"), (33, "beta")),
    ALIGN_BY_SOCKET: ((25, "alpha"),),
    DISTRIBUTE_ACROSS_CORES: ((31, "alpha"),),
    STRICT_RESERVATION: ((32, "alpha"), (33, "beta"), (35, "stable")),
    PREFER_ALIGN_UNCORE: ((32, "alpha"), (34, "beta"), (36, "stable")),
}
TOPOLOGY_STAGES: Stages = {
    PREFER_CLOSEST: ((26, "alpha"), (28, "beta"), (32, "stable")),
    MAX_ALLOWABLE: ((31, "beta"), (35, "stable")),
}
# In the order in which the kubelet checks them.
EXCLUSIVE_PAIRS = (
    (FULL_PCPUS_ONLY, DISTRIBUTE_ACROSS_CORES),
    (DISTRIBUTE_ACROSS_NUMA, DISTRIBUTE_ACROSS_CORES),
    (PREFER_ALIGN_UNCORE, DISTRIBUTE_ACROSS_CORES),
    (PREFER_ALIGN_UNCORE, DISTRIBUTE_ACROSS_NUMA),
)


class CpuOptions(msgspec.Struct, frozen=True):
    """The static policy's options, parsed: a field for each entry of `CPU_STAGES`, in that order."""

    full_pcpus_only: bool = False
    distribute_across_numa: bool = False
    align_by_socket: bool = False
    distribute_across_cores: bool = False
    strict_reservation: bool = False
    prefer_align_uncore: bool = False


class TopologyOptions(msgspec.Struct, frozen=True):
    """The Topology Manager's options, parsed."""

    prefer_closest: bool = False
    max_allowable: int = DEFAULT_MAX_ALLOWABLE


def stage(stages: Stages, option: str, minor: int) -> Stage | None:
    """How mature an option is in v1.`minor`, None where it is unknown."""
    return next((name for first, name in reversed(stages.get(option, ())) if minor >= first), None)


def parse_cpu_options(options: Options, version: str, gates: Gates) -> CpuOptions | str:
    """The static policy's options, or the kubelet's error; a release without options (before v1.22) ignores them."""
    minor = rules_for(version).minor
    if minor < 22:
        return CpuOptions()
    on = set()
    for name, value in sorted(options):
        refusal = _cpu_unavailable(name, value, minor, gates) or value_refusal(name, value)
        if refusal:
            return refusal
        if parse_bool(value):
            on.add(name)
    for one, other in excluding(on):
        return exclusion(one, other)
    return CpuOptions(*(name in on for name in CPU_STAGES))


def parse_topology_options(options: Options, version: str, gates: Gates) -> TopologyOptions | str:
    """The Topology Manager's options, or the kubelet's error; a release without options (before v1.26) ignores them."""
    minor = rules_for(version).minor
    if minor < 26:
        return TopologyOptions()
    prefer_closest = False
    max_allowable = DEFAULT_MAX_ALLOWABLE
    for name, value in sorted(options):
        refusal = _topology_unavailable(name, minor, gates) or value_refusal(name, value)
        if refusal:
            return refusal
        if name == PREFER_CLOSEST:
            prefer_closest = parse_bool(value)
        else:
            max_allowable = parse_int(value)
    return TopologyOptions(prefer_closest=prefer_closest, max_allowable=max_allowable)


def value_refusal(name: str, value: str) -> str:
    """What the kubelet says to the value of an option, empty if it takes it."""
    try:
        if name != MAX_ALLOWABLE:
            parse_bool(value)
        elif parse_int(value) < DEFAULT_MAX_ALLOWABLE:
            return f"the minimum value of {quoted(name)} should not be less than {DEFAULT_MAX_ALLOWABLE}"
    except ValueError as error:
        if name == MAX_ALLOWABLE:
            return f"unable to convert policy option to integer {quoted(name)}: {error}"
        return f"bad value for option {quoted(name)}: {error}"
    return ""


def excluding(on: set[str]) -> Iterator[tuple[str, str]]:
    """The pairs among options that are on of which the static policy takes only one."""
    return ((one, other) for one, other in EXCLUSIVE_PAIRS if one in on and other in on)


def exclusion(one: str, other: str) -> str:
    """What the kubelet says to such a pair."""
    return f"static policy options {one} and {other} can not be used at the same time"


def closed_gate(manager: str, stage: Stage, minor: int, gates: Gates) -> str:
    """The gate of a stage's options if it exists in this release and is shut, else empty.

    Stable options have none, and v1.22 had none per stage.
    """
    gate = f"{manager}Policy{stage.title()}Options"
    exists = gate in GATES and GATES[gate].at(minor) is not None
    return gate if exists and not enabled(gate, minor, gates) else ""


def _cpu_unavailable(name: str, value: str, minor: int, gates: Gates) -> str:
    maturity = stage(CPU_STAGES, name, minor)
    if maturity is None and minor == 22:
        return f"unsupported cpumanager option: {quoted(name)} ({value})"
    if maturity is None:
        return f"unknown CPU Manager Policy option: {quoted(name)}"
    if closed_gate("CPUManager", maturity, minor, gates):
        return f"CPU Manager Policy {maturity.title()}-level Options not enabled, but option {quoted(name)} provided"
    return ""


def _topology_unavailable(name: str, minor: int, gates: Gates) -> str:
    maturity = stage(TOPOLOGY_STAGES, name, minor)
    if maturity is None:
        return f"unknown Topology Manager Policy option: {quoted(name)}"
    if not closed_gate("TopologyManager", maturity, minor, gates):
        return ""
    group = (
        f"topology manager policy {maturity}-level options"
        if minor >= 33
        else f"Topology Manager Policy {maturity.title()}-level Options"
    )
    return f"{group} not enabled, but option {quoted(name)} provided"
