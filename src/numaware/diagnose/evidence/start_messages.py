"""With what words kubelets of all releases refuse to start, and what each of them means: a code and its facts."""

from __future__ import annotations

import re

from numaware.diagnose.evidence.meaning import Meaning, first_of, fixed, quoting, table, taking


def start_failure(message: str) -> Meaning | None:
    """Why a kubelet did not start; None where the message does not say that it did not."""
    return first_of(_STARTS, message)


_QUOTED = r'\\?"([^"\\]{0,400})\\?"'


def _quoted(name: str) -> str:
    return _QUOTED.replace("(", f"(?P<{name}>", 1)


def _policy_mismatch(match: re.Match[str]) -> Meaning:
    facts = {"configured": match[2], "stored": match[3]}
    around = match.string[: match.end() + 400]
    if match[1] or "memory manager" in around:
        return Meaning(
            "memory-manager-state-mismatch",
            "policy",
            {**facts, "file": "/var/lib/kubelet/memory_manager_state"},
        )
    path = re.search(r"(/[\w./-]{1,300}cpu_manager_state)", around)
    return Meaning(
        "cpu-manager-state-policy-mismatch",
        "",
        {**facts, "file": path[1] if path else "/var/lib/kubelet/cpu_manager_state"},
    )


def _corrupt(match: re.Match[str]) -> Meaning:
    memory = "memory manager" in match.string[: match.end() + 300]
    code = "memory-manager-state-corrupt" if memory else "cpu-manager-state-corrupt"
    return Meaning(code, "", {"problem": match[1].strip()})


def _needs_gate(match: re.Match[str]) -> Meaning:
    manager = "TopologyManager" if match[1].lower().startswith("topology") else "CPUManager"
    stage = match[2].capitalize()
    facts = {"option": match[3], "stage": stage.lower(), "gate": f"{manager}Policy{stage}Options"}
    return Meaning("policy-option-needs-gate", "", facts)


def _unknown_option(match: re.Match[str]) -> Meaning:
    manager = "Topology Manager" if "opology" in match[1] else "CPU Manager"
    return Meaning(
        "unknown-policy-option", "", {"option": match[2], "manager": manager, "message": match[0].strip()}
    )


def _options(match: re.Match[str]) -> Meaning:
    options = [match[1], match[2]]
    return Meaning("incompatible-policy-options", "", {"options": options, "message": match[0].strip()})


def _not_on_this_platform(match: re.Match[str]) -> Meaning:
    facts = {"given": match[1], "platform": match[2] or match[3], "message": match[0]}
    return Meaning("unknown-policy", "platform", facts)


def _feature_gate(match: re.Match[str]) -> Meaning:
    gate = match[1] or match[2]
    facts = {"path": f"featureGates.{gate}", "gate": gate, "message": match[0]}
    return Meaning("kubelet-configuration-invalid", "gate", facts)


_STARTS = table(
    (
        (
            r"unable to determine reserved CPU resources for static policy|"
            r"the static policy requires systemreserved\.cpu \+ kubereserved\.cpu to be greater than zero"
        ),
        fixed("cpu-manager-no-reserved-cpus", policy="static", setting="reservedSystemCPUs"),
    ),
    (
        r"unable to reserve the required amount of CPUs \(size of ([\d,-]{0,400}) did not equal (\d{1,9})\)",
        quoting("cpu-manager-reserved-cpus-wrong", reserved=1, wanted=2),
    ),
    (
        rf"(\[memorymanager\] )?configured policy {_QUOTED} differs from state checkpoint policy {_QUOTED}",
        _policy_mismatch,
    ),
    (
        rf"(?:not all|some of strictly) reserved cpus: {_QUOTED} are present in defaultCpuSet: {_QUOTED}",
        quoting("cpu-manager-state-reserved-mismatch", reserved=1, stored=2),
    ),
    (
        rf"current set of available CPUs {_QUOTED} doesn't match with CPUs in state {_QUOTED}",
        quoting("cpu-manager-state-reserved-mismatch", "machine", online=1, stored=2),
    ),
    (
        rf"pod: ([\w.-]{{1,260}}), container: ([\w.-]{{1,260}}) cpuset: {_QUOTED} overlaps with default cpuset {_QUOTED}",
        quoting("cpu-manager-state-reserved-mismatch", "machine", stored=4),
    ),
    (r"default cpuset cannot be empty", quoting("cpu-manager-state-reserved-mismatch", "machine")),
    (
        (
            rf"the total amount {_quoted('found')} of type {_quoted('resource')} is not equal to the value "
            rf"{_quoted('wanted')} determined by Node Allocatable feature"
        ),
        taking("memory-manager-reserved-memory-mismatch", setting="reservedMemory"),
    ),
    (
        r"the reserved memory configuration references a NUMA node (\d{1,9}) that does not exist on this machine",
        quoting("memory-manager-reserved-memory-mismatch", "no-such-node", numaNode=1),
    ),
    (
        r"\[memorymanager\] you should specify the system reserved memory",
        quoting("memory-manager-reserved-memory-mismatch", "nothing-reserved"),
    ),
    (
        (
            r"\[memorymanager\] (?:the expected machine state is different from the real one|machine state can not be empty "
            r"when it has memory assignments|[^\n]{0,600}?the memory assignment uses (?:the NUMA|memory resource) that does "
            r"not exist)"
        ),
        quoting("memory-manager-state-mismatch"),
    ),
    # Whatever else a release says of a file that it cannot read: checksums, JSON, migrations of old forms.
    (r"could not restore state from checkpoint: ([^\n]{1,400}?)(?:, please drain|\n|$)", _corrupt),
    (r"unsupported on machines with more than (?P<most>\d{1,9}) NUMA Nodes", taking("too-many-numa-nodes")),
    (
        (
            r"cannot discover NUMA topology: [^\n]{1,300}|"
            rf"the {_QUOTED} policy option is not supported on \w{{1,20}} because NUMA node distances are not available"
        ),
        quoting("incompatible-policy-options", "no-distances"),
    ),
    (rf"policy {_QUOTED} is not available (?:for platform {_QUOTED}|on (\w{{1,20}}))", _not_on_this_platform),
    (
        (
            r"unrecognized feature gate: (\w{1,80})|"
            r"cannot set feature gate (\w{1,80}) to \w{4,5}, feature is locked to \w{4,5}"
        ),
        _feature_gate,
    ),
    (
        rf"(?:unknown|unsupported) ((?:CPU|Topology) Manager Policy|cpumanager|topologymanager) option: {_QUOTED}",
        _unknown_option,
    ),
    (
        r"None policy: received unsupported options=(map\[[^\]]{0,400}\])",
        quoting("incompatible-policy-options", "none-policy", given=1),
    ),
    (
        rf"(?i:(CPU|topology) manager policy (alpha|beta)-level options not enabled, but option) {_QUOTED} provided",
        _needs_gate,
    ),
    (
        r"(?i:cpu|topology) manager policy options (map\[[^\]]{0,400}\]) require feature gates ([^\n]{1,200}) enabled",
        quoting("policy-option-needs-gate", "all", given=1, gate=2),
    ),
    (r"static policy options ([\w-]{1,80}) and ([\w-]{1,80}) can not be used at the same time", _options),
    (
        r"Topol\w{1,4} manager ([\w-]{1,40}) policy is incompatible with CPUManager ([\w-]{1,80}) policy option",
        _options,
    ),
    (
        r"Align by socket is not compatible with hardware where number of sockets are more than number of NUMA",
        quoting("incompatible-policy-options", "hardware"),
    ),
    (
        rf"(?:bad value for option|unable to convert policy option to integer|the minimum value of) {_QUOTED}[^\n]{{0,200}}",
        quoting("kubelet-configuration-invalid", path=1),
    ),
    (rf"unknown (policy|scope): {_QUOTED}", quoting("unknown-policy", what=1, given=2)),
    (
        rf"invalid configuration: (topologyManagerPolicy|topologyManagerScope) \([\w-]{{1,40}}\) {_QUOTED} must be one of",
        quoting("unknown-policy", field=1, given=2),
    ),
    (
        (
            r"invalid configuration: (topologyManagerPolicy|topologyManagerScope|reservedSystemCPUs|reservedMemory)"
            r"[^\n]{0,400}"
        ),
        quoting("kubelet-configuration-invalid", path=1),
    ),
)
