"""The kubelet's own sentences, and what each of them means.

Events, pod statuses and logs of all releases quote the same error texts, however they are wrapped ("Allocate failed due
to ..., which is unexpected", "Pod was rejected: ..."). A sentence is recognised by a part that only it has; what is not
in this table is not guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from numaware.machine.quantity import Quantity

AFFINITY = "TopologyAffinityError"
SMT = "SMTAlignmentError"
UNEXPECTED = "UnexpectedAdmissionError"


class Meaning(NamedTuple):
    """A code, the variant of its text, the facts that the sentence holds, and the sentence."""

    code: str
    variant: str = ""
    facts: Mapping[str, Any] = MappingProxyType({})
    quote: str = ""


_Facts = Callable[[re.Match[str]], Meaning]


def refusal(message: str, reason: str = "") -> Meaning | None:
    """Why a pod was refused, from the message of an event, a status or an error; None where nothing says that it was."""
    for pattern, meaning in _REFUSALS:
        match = pattern.search(message[:_LONGEST])
        if match:
            return meaning(match)._replace(quote=match[0])
    if reason == AFFINITY:
        return Meaning("topology-affinity-error", "event-only")
    if reason == "OutOfcpu":
        return Meaning("out-of-cpu")
    if reason.startswith("OutOf") and reason != "OutOfDisk":
        resource = reason.removeprefix("OutOf")
        return Meaning("out-of-resource", "", {"resource": resource, "reason": reason})
    if reason in (UNEXPECTED, SMT):
        return Meaning("admission-error", "", {"reason": reason, "message": message or reason})
    return None


def start_failure(message: str) -> Meaning | None:
    """Why a kubelet did not start, from its last words."""
    for pattern, meaning in _STARTS:
        match = pattern.search(message[:_LONGEST])
        if match:
            return meaning(match)._replace(quote=match[0])
    return None


# No sentence is longer, and a search through megabytes of somebody's log line would take its time.
_LONGEST = 8_192
_NAME = r"[A-Za-z0-9][\w./-]{0,316}"


def _smt_odd(match: re.Match[str]) -> Meaning:
    requested, threads = int(match[1]), int(match[2])
    below = requested // threads * threads if threads else 0
    facts = {
        "requested": requested,
        "threads": threads,
        "fewer": below,
        "more": below + threads,
        "option": "full-pcpus-only",
    }
    # KUBELET: until 1.31 the same words were used when no whole core was left at all.
    if threads and requested % threads == 0:
        return Meaning("smt-alignment-error", "no-cores-left", {**facts, "available": 0})
    return Meaning("smt-alignment-error", "", facts)


def _smt_short(match: re.Match[str]) -> Meaning:
    available, requested, threads = (int(match[group]) for group in (1, 2, 3))
    facts = {"available": available, "requested": requested, "threads": threads, "option": "full-pcpus-only"}
    return Meaning("smt-alignment-error", "no-cores-left", facts)


def _cpus(match: re.Match[str]) -> Meaning:
    facts: dict[str, Any] = {"reason": UNEXPECTED}
    if match[1]:
        facts |= {"requested": int(match[1]), "available": int(match[2])}
    return Meaning("not-enough-exclusive-cpus", "", facts)


def _node_resource(match: re.Match[str]) -> Meaning:
    resource, requested, used, capacity = match.groups()
    numbers = {"requested": requested, "used": used, "capacity": capacity}
    if resource == "cpu":
        return Meaning(
            "out-of-cpu",
            "",
            {name: _thousandths(value) for name, value in numbers.items()} | {"reason": "OutOfcpu"},
        )
    amounts = {name: int(value) for name, value in numbers.items()}
    return Meaning("out-of-resource", "", {**amounts, "resource": resource, "reason": f"OutOf{resource}"})


def _thousandths(text: str) -> str:
    return str(Quantity(int(text) * 10**6))


def _devices(match: re.Match[str]) -> Meaning:
    facts = {"resource": match[1], "requested": int(match[2]), "available": int(match[3])}
    return Meaning("devices-unavailable", "", facts)


def _shared(match: re.Match[str]) -> Meaning:
    asked, most = match[1], int(match[2])
    facts = {"asked": asked, "most": most, "resource": asked.partition(":")[0], "shared": True}
    return Meaning("device-plugin-refused", "", facts)


def _rpc(match: re.Match[str]) -> Meaning:
    call = match.groupdict().get("call") or "Allocate"
    error = _unwrapped(match["error"])
    return Meaning("device-plugin-error", "", {"call": call, "error": error})


def _unwrapped(text: str) -> str:
    return text.strip().removesuffix(", which is unexpected").removesuffix(", which is unexpected.").strip()


def _other(match: re.Match[str]) -> Meaning:
    return Meaning("admission-error", "", {"reason": UNEXPECTED, "message": match[0]})


def _fixed(code: str, variant: str = "", **facts: Any) -> _Facts:
    return lambda _: Meaning(code, variant, dict(facts))


def _quoting(code: str, variant: str = "", **groups: int) -> _Facts:
    """The whole sentence as `message`, and some of its groups by name."""

    def meaning(match: re.Match[str]) -> Meaning:
        facts = {name: match[group] for name, group in groups.items()}
        return Meaning(code, variant, {**facts, "message": match[0].strip()})

    return meaning


def _table(*rows: tuple[str, _Facts]) -> tuple[tuple[re.Pattern[str], _Facts], ...]:
    return tuple((re.compile(pattern), meaning) for pattern, meaning in rows)


# More telling sentences first: some are quoted inside others.
_REFUSALS = _table(
    (r"SMT Alignment Error: requested (\d{1,9}) cpus not multiple cpus per core = (\d{1,9})", _smt_odd),
    (
        (
            r"SMT Alignment Error: not enough free physical CPUs: available physical CPUs = (\d{1,9}), "
            r"requested CPUs = (\d{1,9}), CPUs per core = (\d{1,9})"
        ),
        _smt_short,
    ),
    (
        r"not enough cpus available to satisfy request(?:: requested=(\d{1,9}), available=(\d{1,9}))?",
        _cpus,
    ),
    (
        rf"no healthy devices present; cannot allocate unhealthy devices ({_NAME})",
        lambda match: Meaning("devices-unhealthy", "", {"resource": match[1]}),
    ),
    (
        rf"previously allocated devices are no longer healthy; cannot allocate unhealthy devices ({_NAME})",
        lambda match: Meaning("devices-unhealthy", "held", {"resource": match[1]}),
    ),
    (
        rf"requested number of devices unavailable for ({_NAME})\. Requested: (\d{{1,9}}), Available: (\d{{1,9}})",
        _devices,
    ),
    (
        rf"(?:can't|cannot) allocate unregistered device ({_NAME})",
        lambda match: Meaning("devices-unavailable", "unregistered", {"resource": match[1]}),
    ),
    (
        r"request for '([^']{1,400})' too large: maximum request size for shared resources is (\d{1,9})",
        _shared,
    ),
    (r"device plugin (?P<call>\w{1,60}) rpc failed with err: (?P<error>[^\n]{1,2000})", _rpc),
    (r"Allocate failed due to (?P<error>rpc error: [^\n]{1,2000})", _rpc),
    (
        (
            r"(?P<error>(?:unknown Device Plugin|endpoint not found in cache for a registered resource:|no containers return in "
            r"allocation response)[^\n]{1,400})"
        ),
        _rpc,
    ),
    (
        (
            r"\[memorymanager\] (?:failed to (?:get the default NUMA affinity|find the (?:default|extended) preferred hint|"
            r"find NUMA nodes to extend)|preferred hint violates NUMA node allocation)[^\n]{0,120}"
        ),
        _quoting("not-enough-memory-on-nodes"),
    ),
    (
        (
            rf"Node didn't have enough resource: ({_NAME}), requested: (\d{{1,19}}), used: (\d{{1,19}}), "
            r"capacity: (\d{1,19})"
        ),
        _node_resource,
    ),
    (
        r"Resources cannot be allocated with Topology locality",
        _fixed("topology-affinity-error", "event-only"),
    ),
    (r"(?:Allocate|Update plugin resources) failed due to [^\n]{1,2000}?, which is unexpected", _other),
)

_QUOTED = r'\\?"([^"\\]{0,400})\\?"'


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


def _reserved_memory(match: re.Match[str]) -> Meaning:
    found, kind, wanted = match[1], match[2], match[3]
    facts = {"found": found, "resource": kind, "wanted": wanted, "setting": "reservedMemory"}
    return Meaning("memory-manager-reserved-memory-mismatch", "", facts)


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


def _too_many(match: re.Match[str]) -> Meaning:
    return Meaning("too-many-numa-nodes", "", {"most": int(match[1])})


_STARTS = _table(
    (
        (
            r"unable to determine reserved CPU resources for static policy|"
            r"the static policy requires systemreserved\.cpu \+ kubereserved\.cpu to be greater than zero"
        ),
        _fixed("cpu-manager-no-reserved-cpus", policy="static", setting="reservedSystemCPUs"),
    ),
    (
        r"unable to reserve the required amount of CPUs \(size of ([\d,-]{0,400}) did not equal (\d{1,9})\)",
        _quoting("cpu-manager-reserved-cpus-wrong", reserved=1, wanted=2),
    ),
    (
        rf"(\[memorymanager\] )?configured policy {_QUOTED} differs from state checkpoint policy {_QUOTED}",
        _policy_mismatch,
    ),
    (
        rf"not all reserved cpus: {_QUOTED} are present in defaultCpuSet: {_QUOTED}",
        _quoting("cpu-manager-state-reserved-mismatch", reserved=1, stored=2),
    ),
    (
        rf"some of strictly reserved cpus: {_QUOTED} are present in defaultCpuSet: {_QUOTED}",
        _quoting("cpu-manager-state-reserved-mismatch", reserved=1, stored=2),
    ),
    (
        rf"current set of available CPUs {_QUOTED} doesn't match with CPUs in state {_QUOTED}",
        _quoting("cpu-manager-state-reserved-mismatch", "machine", online=1, stored=2),
    ),
    (
        rf"pod: ([\w.-]{{1,260}}), container: ([\w.-]{{1,260}}) cpuset: {_QUOTED} overlaps with default cpuset {_QUOTED}",
        _quoting("cpu-manager-state-reserved-mismatch", "machine", stored=4),
    ),
    (r"default cpuset cannot be empty", _quoting("cpu-manager-state-reserved-mismatch", "machine")),
    (
        (
            r"could not restore state from checkpoint: ((?:checkpoint is corrupted|could not parse|unexpected end|invalid "
            r"character)[^\n]{0,200}?)(?:, please drain|$)"
        ),
        _corrupt,
    ),
    (
        (
            rf"the total amount {_QUOTED} of type {_QUOTED} is not equal to the value {_QUOTED} determined by Node "
            r"Allocatable feature"
        ),
        _reserved_memory,
    ),
    (
        r"the reserved memory configuration references a NUMA node (\d{1,9}) that does not exist on this machine",
        _quoting("memory-manager-reserved-memory-mismatch", "no-such-node", numaNode=1),
    ),
    (
        r"\[memorymanager\] you should specify the system reserved memory",
        _quoting("memory-manager-reserved-memory-mismatch", "nothing-reserved"),
    ),
    (
        (
            r"\[memorymanager\] (?:the expected machine state is different from the real one|machine state can not be empty "
            r"when it has memory assignments|[^\n]{0,600}?the memory assignment uses (?:the NUMA|memory resource) that does "
            r"not exist)"
        ),
        _quoting("memory-manager-state-mismatch"),
    ),
    (r"unsupported on machines with more than (\d{1,9}) NUMA Nodes", _too_many),
    (rf"unknown (CPU|Topology) Manager Policy option: {_QUOTED}", _unknown_option),
    (rf"unsupported (cpumanager|topologymanager) option: {_QUOTED}", _unknown_option),
    (
        r"None policy: received unsupported options=(map\[[^\]]{0,400}\])",
        _quoting("incompatible-policy-options", "none-policy", given=1),
    ),
    (
        rf"(?i:(CPU|topology) manager policy (alpha|beta)-level options not enabled, but option) {_QUOTED} provided",
        _needs_gate,
    ),
    (
        r"(?i:cpu|topology) manager policy options (map\[[^\]]{0,400}\]) require feature gates ([^\n]{1,200}) enabled",
        _quoting("policy-option-needs-gate", "all", given=1, gate=2),
    ),
    (r"static policy options ([\w-]{1,80}) and ([\w-]{1,80}) can not be used at the same time", _options),
    (
        r"Topol\w{1,4} manager ([\w-]{1,40}) policy is incompatible with CPUManager ([\w-]{1,80}) policy option",
        _options,
    ),
    (
        r"Align by socket is not compatible with hardware where number of sockets are more than number of NUMA",
        _quoting("incompatible-policy-options", "hardware"),
    ),
    (
        rf"(?:bad value for option|unable to convert policy option to integer|the minimum value of) {_QUOTED}[^\n]{{0,200}}",
        _quoting("kubelet-configuration-invalid", path=1),
    ),
    (rf"unknown (policy|scope): {_QUOTED}", _quoting("unknown-policy", what=1, given=2)),
    (
        (
            r"invalid configuration: (topologyManagerPolicy|topologyManagerScope|reservedSystemCPUs|reservedMemory)"
            r"[^\n]{0,400}"
        ),
        _quoting("kubelet-configuration-invalid", path=1),
    ),
)
