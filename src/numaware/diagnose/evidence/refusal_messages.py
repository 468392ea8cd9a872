"""The sentences in which kubelets refuse pods, and what each of them means.

Events, pod statuses and logs of all releases quote the same error texts, however they are wrapped ("Allocate failed due
to ..., which is unexpected", "Pod was rejected: ..."). A sentence is recognised by a part that only it has; what is not
in this table is not guessed at.
"""

from __future__ import annotations

import re

from numaware.diagnose.evidence.meaning import Meaning, first_of, fixed, quoting, table, taking
from numaware.machine.quantity import Quantity

AFFINITY = "TopologyAffinityError"
SMT = "SMTAlignmentError"
UNEXPECTED = "UnexpectedAdmissionError"


def refusal(message: str, reason: str = "") -> Meaning | None:
    """Why a pod was refused, from the message of an event, a status or an error; None where nothing says that it was."""
    meaning = first_of(_REFUSALS, message)
    if meaning is not None:
        return meaning
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


def _node_resource(match: re.Match[str]) -> Meaning:
    resource, requested, used, capacity = match.groups()
    numbers = {"requested": requested, "used": used, "capacity": capacity}
    if resource == "cpu":
        cpus = {name: str(Quantity(int(value) * 10**6)) for name, value in numbers.items()}
        return Meaning("out-of-cpu", "", {**cpus, "reason": "OutOfcpu"})
    amounts = {name: int(value) for name, value in numbers.items()}
    return Meaning("out-of-resource", "", {**amounts, "resource": resource, "reason": f"OutOf{resource}"})


def _shared(match: re.Match[str]) -> Meaning:
    asked, most = match[1], int(match[2])
    facts = {"asked": asked, "most": most, "resource": asked.partition(":")[0], "shared": True}
    return Meaning("device-plugin-refused", "", facts)


def _nothing_shared(match: re.Match[str]) -> Meaning:
    resource, needed = match["resource"], match["needed"]
    # The kubelet's own plural, where only CPUs can be meant.
    facts = {"resource": (resource or needed).replace("cpus", "cpu"), "reason": "EmptyPodSharedPoolError"}
    return Meaning("empty-pod-shared-pool", "init" if needed else "", facts)


def _rpc(match: re.Match[str]) -> Meaning:
    call = match.groupdict().get("call") or "Allocate"
    error = re.sub(r", which is unexpected\.?\Z", "", match["error"].strip()).strip()
    return Meaning("device-plugin-error", "", {"call": call, "error": error})


# More telling sentences first: some are quoted inside others.
_REFUSALS = table(
    (r"SMT Alignment Error: requested (\d{1,9}) cpus not multiple cpus per core = (\d{1,9})", _smt_odd),
    (
        (
            r"SMT Alignment Error: not enough free physical CPUs: available physical CPUs = (?P<available>\d{1,9}), "
            r"requested CPUs = (?P<requested>\d{1,9}), CPUs per core = (?P<threads>\d{1,9})"
        ),
        taking("smt-alignment-error", "no-cores-left", option="full-pcpus-only"),
    ),
    (
        (
            r"not enough cpus available to satisfy request"
            r"(?:: requested=(?P<requested>\d{1,9}), available=(?P<available>\d{1,9}))?"
        ),
        taking("not-enough-exclusive-cpus", reason=UNEXPECTED),
    ),
    (
        r"accounting error, (?:not enough|too many) CPUs allocated, remaining: (?P<missing>-?\d{1,9})",
        taking("distributed-cpus-miscounted", reason=UNEXPECTED),
    ),
    (
        (
            rf"sum of exclusive container (?P<resource>{_NAME}) requests equals pod budget|"
            rf"pod has shared init containers but no (?P<needed>{_NAME}) available for them"
        ),
        _nothing_shared,
    ),
    (
        rf"no healthy devices present; cannot allocate unhealthy devices (?P<resource>{_NAME})",
        taking("devices-unhealthy"),
    ),
    (
        rf"previously allocated devices are no longer healthy; cannot allocate unhealthy devices (?P<resource>{_NAME})",
        taking("devices-unhealthy", "held"),
    ),
    (
        (
            rf"requested number of devices unavailable for (?P<resource>{_NAME})\. "
            r"Requested: (?P<requested>\d{1,9}), Available: (?P<available>\d{1,9})"
        ),
        taking("devices-unavailable"),
    ),
    (
        rf"(?:can't|cannot) allocate unregistered device (?P<resource>{_NAME})",
        taking("devices-unavailable", "unregistered"),
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
        quoting("not-enough-memory-on-nodes"),
    ),
    (
        (
            rf"Node didn't have enough resource: ({_NAME}), requested: (\d{{1,19}}), used: (\d{{1,19}}), "
            r"capacity: (\d{1,19})"
        ),
        _node_resource,
    ),
    (r"Resources cannot be allocated with Topology locality", fixed("topology-affinity-error", "event-only")),
    (
        r"(?P<message>(?:Allocate|Update plugin resources) failed due to [^\n]{1,2000}?, which is unexpected)",
        taking("admission-error", reason=UNEXPECTED),
    ),
)
