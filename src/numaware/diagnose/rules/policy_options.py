"""Policy options of a kubelet: unknown ones, closed ones, and those that exclude or defeat each other.

The kubelet names one bad option and stops; here each is named, with its line.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from numaware.diagnose.finding import Finding
from numaware.diagnose.rules.config_check import ConfigCheck
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


def option_findings(check: ConfigCheck) -> Iterator[Finding]:
    """All that is wrong with the options of both managers."""
    config, minor = check.config, check.minor
    if config.cpu_policy == "static":
        yield from _availability(check, CPU_FIELD, config.cpu_options, CPU_STAGES, "CPU Manager")
        yield from _pairs(check)
    elif config.cpu_policy == "none" and config.cpu_options and minor >= 22:
        yield check.finding(
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
            check, TOPOLOGY_FIELD, config.topology_options, TOPOLOGY_STAGES, "Topology Manager"
        )
        yield from _limit(check)


def _availability(
    check: ConfigCheck, field: str, options: Options, stages: Stages, manager: str
) -> Iterator[Finding]:
    for name, value in options[:_MOST]:
        shown = printable(name, 80)
        stage_of_option = stage(stages, name, check.minor)
        if stage_of_option is None:
            near = difflib.get_close_matches(name[:80], sorted(stages), n=1, cutoff=0.6)
            facts = {
                "option": shown,
                "manager": manager,
                "message": f"unknown {manager} Policy option: {quoted(shown)}",
                "near": near[0] if near and name not in stages else None,
                "since": f"v1.{stages[name][0][0]}" if name in stages else None,
            }
            yield check.finding("unknown-policy-option", facts, field, name)
            continue
        gate = f"{manager.replace(' ', '')}Policy{stage_of_option.title()}Options"
        exists = gate in GATES and GATES[gate].at(check.minor) is not None
        if exists and not enabled(gate, check.minor, check.config.feature_gates):
            facts = {"option": shown, "stage": stage_of_option, "gate": gate, "manager": manager}
            yield check.finding("policy-option-needs-gate", facts, field, name)
        if name != MAX_ALLOWABLE:
            yield from _cache(check, field, name, value)


def _cache(check: ConfigCheck, field: str, name: str, value: str) -> Iterator[Finding]:
    try:
        parse_bool(value)
    except ValueError as error:
        yield check.finding(
            "kubelet-configuration-invalid",
            {
                "path": f"{field}.{name}",
                "message": f"bad value for option {quoted(name)}: {printable(str(error), 200)}",
                "fix": f'{field}:\n  {name}: "true"',
            },
            field,
            name,
        )


def _limit(check: ConfigCheck) -> Iterator[Finding]:
    value = dict(check.config.topology_options).get(MAX_ALLOWABLE)
    if value is None or stage(TOPOLOGY_STAGES, MAX_ALLOWABLE, check.minor) is None:
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
        yield check.finding("kubelet-configuration-invalid", facts, TOPOLOGY_FIELD, MAX_ALLOWABLE)


def _pairs(check: ConfigCheck) -> Iterator[Finding]:
    """What the kubelet refuses together, and what it takes together although one undoes the other."""
    config = check.config
    on = {
        name for name, value in config.cpu_options if _is_on(value) and stage(CPU_STAGES, name, check.minor)
    }
    for one, other in EXCLUSIVE_PAIRS:
        if one in on and other in on:
            message = f"static policy options {one} and {other} can not be used at the same time"
            yield check.finding(
                "incompatible-policy-options", {"options": [one, other], "message": message}, CPU_FIELD, other
            )
    if config.topology_policy != _SINGLE:
        return
    policy = f"topologyManagerPolicy: {_SINGLE}"
    if ALIGN_BY_SOCKET in on:
        message = "Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option"
        yield check.finding(
            "incompatible-policy-options",
            {"options": [ALIGN_BY_SOCKET, policy], "message": message},
            CPU_FIELD,
            ALIGN_BY_SOCKET,
        )
    if DISTRIBUTE_ACROSS_NUMA in on:
        yield check.finding(
            "incompatible-policy-options",
            {"options": [DISTRIBUTE_ACROSS_NUMA, policy], "option": DISTRIBUTE_ACROSS_NUMA},
            CPU_FIELD,
            DISTRIBUTE_ACROSS_NUMA,
            variant="distribute-on-one-node",
            severity="warning",
        )
    closest = dict(config.topology_options).get(PREFER_CLOSEST, "")
    if _is_on(closest) and stage(TOPOLOGY_STAGES, PREFER_CLOSEST, check.minor):
        yield check.finding(
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
