"""Policy options of a kubelet: unknown ones, closed ones, and those that exclude or defeat each other.

`kubelet_config` asks for these findings. The kubelet names one bad option and stops; here each is named, with its line,
by the rules of the twin.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from numaware.diagnose.finding import Finding
from numaware.diagnose.rules.config_check import ConfigCheck
from numaware.machine.words import printable
from numaware.twin.config import Options
from numaware.twin.gotext import map_text, parse_bool, quoted
from numaware.twin.options import (
    ALIGN_BY_SOCKET,
    CPU_STAGES,
    DEFAULT_MAX_ALLOWABLE,
    DISTRIBUTE_ACROSS_NUMA,
    MAX_ALLOWABLE,
    PREFER_CLOSEST,
    TOPOLOGY_STAGES,
    Stages,
    closed_gate,
    excluding,
    exclusion,
    stage,
    value_refusal,
)

_CPU_FIELD = "cpuManagerPolicyOptions"
_TOPOLOGY_FIELD = "topologyManagerPolicyOptions"
_SINGLE = "single-numa-node"
# Options told one by one; a file with more is something else.
_MOST = 50


def option_findings(check: ConfigCheck) -> Iterator[Finding]:
    """All that is wrong with the options of both managers."""
    config, minor = check.config, check.minor
    if config.cpu_policy == "static":
        yield from _each(check, _CPU_FIELD, config.cpu_options, CPU_STAGES, "CPU Manager")
        yield from _together(check)
    elif config.cpu_policy == "none" and config.cpu_options and minor >= 22:
        names = [printable(name, 80) for name, _ in config.cpu_options[:_MOST]]
        given = printable(map_text(config.cpu_options), 400)
        facts = {
            "options": ["cpuManagerPolicy: none", *names],
            "message": f"None policy: received unsupported options={given}",
        }
        yield check.finding("incompatible-policy-options", facts, _CPU_FIELD, variant="none-policy")
    if config.topology_policy != "none":
        yield from _each(check, _TOPOLOGY_FIELD, config.topology_options, TOPOLOGY_STAGES, "Topology Manager")


def _each(
    check: ConfigCheck, field: str, options: Options, stages: Stages, manager: str
) -> Iterator[Finding]:
    """Options that this release does not have, keeps behind a gate, or takes only with other values."""
    for name, value in options[:_MOST]:
        shown = printable(name, 80)
        maturity = stage(stages, name, check.minor)
        if maturity is None:
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
        gate = closed_gate(manager.replace(" ", ""), maturity, check.minor, check.config.feature_gates)
        if gate:
            facts = {"option": shown, "stage": maturity, "gate": gate, "manager": manager}
            yield check.finding("policy-option-needs-gate", facts, field, name)
        refusal = value_refusal(name, value)
        if refusal:
            right = DEFAULT_MAX_ALLOWABLE if name == MAX_ALLOWABLE else "true"
            facts = {
                "path": f"{field}.{name}",
                "message": printable(refusal, 300),
                "fix": f'{field}:\n  {name}: "{right}"',
            }
            yield check.finding("kubelet-configuration-invalid", facts, field, name)


def _together(check: ConfigCheck) -> Iterator[Finding]:
    """What the kubelet refuses together, and what it takes together although one undoes the other."""
    code = "incompatible-policy-options"
    on = _on(check, check.config.cpu_options, CPU_STAGES)
    for one, other in excluding(on):
        facts = {"options": [one, other], "message": exclusion(one, other)}
        yield check.finding(code, facts, _CPU_FIELD, other)
    if check.config.topology_policy != _SINGLE:
        return
    policy = f"topologyManagerPolicy: {_SINGLE}"
    if ALIGN_BY_SOCKET in on:
        message = "Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option"
        facts = {"options": [ALIGN_BY_SOCKET, policy], "message": message}
        yield check.finding(code, facts, _CPU_FIELD, ALIGN_BY_SOCKET)
    on |= _on(check, check.config.topology_options, TOPOLOGY_STAGES)
    for field, option, variant in (
        (_CPU_FIELD, DISTRIBUTE_ACROSS_NUMA, "distribute-on-one-node"),
        (_TOPOLOGY_FIELD, PREFER_CLOSEST, "closest-of-one-node"),
    ):
        if option in on:
            facts = {"options": [option, policy], "option": option}
            yield check.finding(code, facts, field, option, variant=variant, severity="warning")


def _on(check: ConfigCheck, options: Options, stages: Stages) -> set[str]:
    """The options that this release has and that are set to something true."""
    known = [pair for pair in options if pair[0] != MAX_ALLOWABLE and stage(stages, pair[0], check.minor)]
    return {name for name, value in known if not value_refusal(name, value) and parse_bool(value)}
