"""Policy options of a kubelet: unknown ones, closed ones, and those that exclude or defeat each other.

The kubelet names one bad option and stops; here each is named, with its line.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from numaware.diagnose.finding import Finding
from numaware.diagnose.rules.config_check import Bench
from numaware.machine.words import printable
from numaware.twin.config import Options
from numaware.twin.gates import GATES, enabled
from numaware.twin.gotext import map_text, parse_bool, parse_int, quoted
from numaware.twin.options import (
    ALIGN_BY_SOCKET,
    CPU_STAGES,
    DEFAULT_MAX_ALLOWABLE,
    DISTRIBUTE_ACROSS_NUMA,
    EXCLUSIVE_PAIRS,
    MAX_ALLOWABLE,
    PREFER_CLOSEST,
    TOPOLOGY_STAGES,
    Stages,
    stage,
)

CPU_FIELD = "cpuManagerPolicyOptions"
TOPOLOGY_FIELD = "topologyManagerPolicyOptions"
_SINGLE = "single-numa-node"
# Options told one by one; a file with more is something else.
_MOST = 50


def option_findings(bench: Bench) -> Iterator[Finding]:
    """All that is wrong with the options of both managers."""
    config, minor = bench.config, bench.minor
    if config.cpu_policy == "static":
        yield from _availability(bench, CPU_FIELD, config.cpu_options, CPU_STAGES, "CPU Manager")
        yield from _pairs(bench)
    elif config.cpu_policy == "none" and config.cpu_options and minor >= 22:
        yield bench.found(
            "incompatible-policy-options",
            {
                "options": [
                    "cpuManagerPolicy: none",
                    *(printable(name, 80) for name, _ in config.cpu_options[:_MOST]),
                ],
                "message": f"None policy: received unsupported options={printable(map_text(config.cpu_options), 400)}",
            },
            CPU_FIELD,
            variant="none-policy",
        )
    if config.topology_policy != "none":
        yield from _availability(
            bench, TOPOLOGY_FIELD, config.topology_options, TOPOLOGY_STAGES, "Topology Manager"
        )
        yield from _limit(bench)


def _availability(
    bench: Bench, field: str, options: Options, stages: Stages, manager: str
) -> Iterator[Finding]:
    for name, value in options[:_MOST]:
        shown = printable(name, 80)
        found = stage(stages, name, bench.minor)
        if found is None:
            near = difflib.get_close_matches(name[:80], sorted(stages), n=1, cutoff=0.6)
            facts = {
                "option": shown,
                "manager": manager,
                "message": f"unknown {manager} Policy option: {quoted(shown)}",
                "near": near[0] if near and name not in stages else None,
                "since": f"v1.{stages[name][0][0]}" if name in stages else None,
            }
            yield bench.found("unknown-policy-option", facts, field, name)
            continue
        gate = f"{manager.replace(' ', '')}Policy{found.title()}Options"
        exists = gate in GATES and GATES[gate].at(bench.minor) is not None
        if exists and not enabled(gate, bench.minor, bench.config.feature_gates):
            facts = {"option": shown, "stage": found, "gate": gate, "manager": manager}
            yield bench.found("policy-option-needs-gate", facts, field, name)
        if name != MAX_ALLOWABLE:
            yield from _cache(bench, field, name, value)


def _cache(bench: Bench, field: str, name: str, value: str) -> Iterator[Finding]:
    try:
        parse_bool(value)
    except ValueError as error:
        yield bench.found(
            "kubelet-configuration-invalid",
            {
                "path": f"{field}.{name}",
                "message": f"bad value for option {quoted(name)}: {printable(str(error), 200)}",
                "fix": f'{field}:\n  {name}: "true"',
            },
            field,
            name,
        )


def _limit(bench: Bench) -> Iterator[Finding]:
    value = dict(bench.config.topology_options).get(MAX_ALLOWABLE)
    if value is None or stage(TOPOLOGY_STAGES, MAX_ALLOWABLE, bench.minor) is None:
        return
    try:
        message = (
            f"the minimum value of {quoted(MAX_ALLOWABLE)} should not be less than {DEFAULT_MAX_ALLOWABLE}"
            if parse_int(value) < DEFAULT_MAX_ALLOWABLE
            else ""
        )
    except ValueError as error:
        message = f"unable to convert policy option to integer {quoted(MAX_ALLOWABLE)}: {printable(str(error), 200)}"
    if message:
        facts = {
            "path": f"{TOPOLOGY_FIELD}.{MAX_ALLOWABLE}",
            "message": message,
            "fix": f'{TOPOLOGY_FIELD}:\n  {MAX_ALLOWABLE}: "{DEFAULT_MAX_ALLOWABLE}"',
        }
        yield bench.found("kubelet-configuration-invalid", facts, TOPOLOGY_FIELD, MAX_ALLOWABLE)


def _pairs(bench: Bench) -> Iterator[Finding]:
    """What the kubelet refuses together, and what it takes together although one undoes the other."""
    config = bench.config
    on = {
        name for name, value in config.cpu_options if _is_on(value) and stage(CPU_STAGES, name, bench.minor)
    }
    for one, other in EXCLUSIVE_PAIRS:
        if one in on and other in on:
            message = f"static policy options {one} and {other} can not be used at the same time"
            yield bench.found(
                "incompatible-policy-options", {"options": [one, other], "message": message}, CPU_FIELD, other
            )
    if config.topology_policy != _SINGLE:
        return
    policy = f"topologyManagerPolicy: {_SINGLE}"
    if ALIGN_BY_SOCKET in on:
        message = "Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option"
        yield bench.found(
            "incompatible-policy-options",
            {"options": [ALIGN_BY_SOCKET, policy], "message": message},
            CPU_FIELD,
            ALIGN_BY_SOCKET,
        )
    if DISTRIBUTE_ACROSS_NUMA in on:
        yield bench.found(
            "incompatible-policy-options",
            {"options": [DISTRIBUTE_ACROSS_NUMA, policy], "option": DISTRIBUTE_ACROSS_NUMA},
            CPU_FIELD,
            DISTRIBUTE_ACROSS_NUMA,
            variant="distribute-on-one-node",
            severity="warning",
        )
    closest = dict(config.topology_options).get(PREFER_CLOSEST, "")
    if _is_on(closest) and stage(TOPOLOGY_STAGES, PREFER_CLOSEST, bench.minor):
        yield bench.found(
            "incompatible-policy-options",
            {"options": [PREFER_CLOSEST, policy], "option": PREFER_CLOSEST},
            TOPOLOGY_FIELD,
            PREFER_CLOSEST,
            variant="closest-of-one-node",
            severity="warning",
        )


def _is_on(value: str) -> bool:
    try:
        return parse_bool(value)
    except ValueError:
        return False
