"""Explanations in English: why a kubelet refuses a pod, what would help, and what a verdict alone does not say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numaware.diagnose.texts.template import Each, Specs
from numaware.machine.words import count, size
from numaware.workload.demand import is_memory

_MOST_SETS = 4

LABELS: Mapping[str, str] = {
    # why a resource cannot be had
    "cause-nowhere": "{asked:amount} cannot be had on any set of NUMA nodes: {free:quantity} free to pin in all.",
    "cause-apart": "{asked:amount} would fit on {on:some}, but {apart:apart}.",
    "cause-stuck": "{asked:amount} would fit on {on:some} if {stuck:each} did too.",
    "cause-together": "{asked:amount} would fit on {on:some}, but not together with all the others.",
    "cause-wide": (
        "{asked:amount} need {width:numa} even on an empty machine (the largest has {largest:quantity}), "
        "and {policy} gives one."
    ),
    "cause-widened": (
        "{asked:amount} come from the same nodes as {by:each}, which takes {width:numa} even on an empty machine."
    ),
    "cause-widened-together": (
        "{asked:amount} come from the same nodes as {by:each}, and together they need {width:numa} even on an empty "
        "machine."
    ),
    "cause-fragmented": (
        "{asked:amount} belong on {fewest:numa} by the size of the machine, but now fit only on {on:some}, which "
        "{policy} does not accept: {free:lacking}"
        "[[; an init container of this pod had its own on {tied:set}, so this one must go there too]]{rules:also}."
    ),
    "cause-odd-cores": (
        "{asked:amount} cannot be whole cores: a core has {threads:threads}, and full-pcpus-only gives whole cores only."
    ),
    "cause-no-cores": (
        "{asked:amount} asked for, {left} left on cores that the system does not use (full-pcpus-only)."
    ),
    "cause-endless": (
        "distribute-cpus-across-numa deals {asked:amount} in whole cores, no NUMA node has a whole core left for the "
        "rest, and the kubelet never stops trying."
    ),
    "cause-no-pool": (
        "{without:set} has no {kind} at all, not even a pool of 0 pages, and the Memory Manager does not expect that."
    ),
    "cause-sparse": (
        "prefer-closest-numa-nodes looks up distances by NUMA number and expects 0, 1, 2 and so on; here they are "
        "{numbers:list}."
    ),
    "cause-short": "{asked:amount} asked for, {free:quantity} free to pin in all[[: {here:lacking}]]{rules:also}.",
    "rule-group": "{nodes:set} are one group and serve only requests for all of it",
    "rule-single": "requests for one node already use {nodes:set}, so no group can",
    "rule-kinds": "all kinds of memory come from the same nodes, and {short:each} is short",
    # who is in the way
    "block-system": "the system keeps {amount:amount} on NUMA {numa}",
    "block-pod": "{pod} ({container}) holds {amount:amount} on {nodes:set}",
    "block-own": "this pod ({container}) holds {amount:amount} on {nodes:set}",
    "block-more": "and {count} more",
    # what would help
    "change-request": "ask for {parts:asking}",
    "change-setting": "set {field} to {value} (now {current})",
    "change-add": "add option {option}",
    "change-remove": "remove option {option}",
    "change-evict": "remove {pods:these}",
    "remedy": "{change}   # then {node} admits it",
    # what a verdict alone does not say
    "crash": "the kubelet itself would crash: {panic}",
    "caveat-newer": (
        "kubelet {version} is modelled as {known}, the newest release whose rules are known: what it does differently is "
        "not foreseen"
    ),
    "caveat-here": (
        "this pod is on the node already: this is what the kubelet would say of it after a restart, given what the pod "
        "holds"
    ),
    "beyond-amount": (
        "the pod asks for {asked:amount} and the node offers {most:quantity}: no scheduler would send it here, and the "
        "kubelet would fail it with OutOf{resource}"
    ),
    "beyond-device": (
        "no device plugin here offers {resource}, so the kubelet passes over it; a scheduler would not send the pod here"
    ),
    "caveat-pod-level": (
        "no container gets {what:own} of its own: the pod has resources as a whole (spec.resources), and the CPU and "
        "Memory Managers pass over such pods"
    ),
    "caveat-qos": (
        "no container gets {what:own} of its own: the pod is {qos}, and only Guaranteed pods do"
        "[[ (container {container} {gap})]]"
    ),
    "caveat-fraction": (
        "container {container} gets no CPUs of its own: it asks for {cpu} CPU, and only whole numbers are pinned"
    ),
    "caveat-slow": (
        "a real kubelet would try {count:thousands} combinations of hints for this pod, about {seconds:about}; fewer "
        "NUMA nodes (BIOS: NPS, SNC) or fewer resources with topology keep it quick"
    ),
    "caveat-slow-container": (
        "a real kubelet would try {count:thousands} combinations of hints for container {container}, about "
        "{seconds:about}; fewer NUMA nodes (BIOS: NPS, SNC) or fewer resources with topology keep it quick"
    ),
    # what a pod has by DRA
    "dra-aligned": (
        "not aligned by the kubelet: served by DRA. {what} has {devices:placed}, where the pod's CPUs and memory are too "
        "({nodes:set}): by luck, because nothing holds them together"
    ),
    "dra-across": (
        "not aligned by the kubelet: served by DRA. {what} has {devices:placed}, and the pod's CPUs and memory are on "
        "{nodes:set}"
    ),
    "dra-alone": (
        "not aligned by the kubelet: served by DRA. {what} has {devices:placed}; nothing else of the pod belongs to a NUMA node"
    ),
    "dra-nowhere": (
        "not aligned by the kubelet: served by DRA. {what} has {devices:placed}, and its driver does not say on which NUMA "
        "node that is"
    ),
    "dra-open": (
        "not aligned by the kubelet: served by DRA. kube-scheduler has not allocated {what} yet"
        "[[; free here: {offers:placed}]][[; whatever it takes, CPUs and memory go to {nodes:set}]]"
    ),
    "dra-unseen": (
        "not aligned by the kubelet: served by DRA. Of {what} nothing is known but its name: neither the claim nor its template "
        "was shown"
    ),
    "dra-hidden": (
        "not aligned by the kubelet: served by DRA. Of {what} nothing can be said: this account may not list resourceslices, "
        "resourceclaims and deviceclasses"
    ),
    "dra-elsewhere": (
        "not aligned by the kubelet: served by DRA. {what} has its devices on {nodes:each}, so the pod can run only there"
    ),
    "dra-cpus": (
        "{what} gives the pod CPUs by DRA[[ ({devices:placed})]], and this kubelet's CPU Manager (static) hands out CPUs as "
        "well: the two exclude each other on a node"
    ),
    "gap-no-limit": "has no {resource} limit",
    "gap-differs": "requests {request} {resource} of a limit of {limit}",
    "gaps": "{gaps:gaps}",
    # pieces
    "amount": "{amount:amount}",
    "lines": "{lines:lines}",
    "stories": "{kinds:stories}",
}


def quantity(pair: tuple[str, int]) -> str:
    """A bare amount: `3`, `1.5 GiB`."""
    resource, number = pair
    return size(number) if is_memory(resource) else str(number)


def _placed(devices: Sequence[Mapping[str, Any]]) -> str:
    """Devices by driver and NUMA node: `2 devices of gpu.example.com on NUMA 0`."""
    return _each(
        [
            f"{count(one['count'], 'device')} of {one['driver']}"
            + (f" on NUMA {one['numa']}" if "numa" in one else "")
            for one in devices
        ]
    )


def _amount(pair: tuple[str, int]) -> str:
    """An amount with its name: `8 CPUs`, `16 GiB of memory`, `2 nvidia.com/gpu`."""
    resource, number = pair
    if resource == "cpu":
        return count(number, "CPU")
    return f"{quantity(pair)} of {resource}" if is_memory(resource) else f"{number} {resource}"


def _set(nodes: Sequence[int]) -> str:
    """One set of NUMA nodes: `NUMA 0`, `NUMA 0+1`."""
    return "NUMA " + "+".join(map(str, nodes))


def _some(sets: Sequence[Sequence[int]]) -> str:
    """A choice of NUMA node sets, cut short when there are many."""
    shown = " or ".join(_set(nodes) for nodes in sets[:_MOST_SETS])
    return f"{shown} or {len(sets) - _MOST_SETS} more" if len(sets) > _MOST_SETS else shown or "no node"


def _each(names: Sequence[str]) -> str:
    return " and ".join(names)


def _asking(parts: Sequence[Mapping[str, Any]]) -> str:
    asked = []
    for part in parts:
        amounts = [f"{_amount(new)} instead of {quantity(old)}" for new, old in part["amounts"]]
        whose = "init container" if part["init"] else "container"
        asked.append(f"{', '.join(amounts)} in {whose} {part['container']}")
    return _each(asked)


def _gaps(gaps: Sequence[Mapping[str, str]]) -> str:
    shown = ", ".join(f"{gap['container']} {gap['missing']}" for gap in gaps[:_MOST_SETS])
    return f"{shown}, …" if len(gaps) > _MOST_SETS else shown


def _stories(kinds: Sequence[Mapping[str, Any]]) -> str:
    """What every kind of node says, one line each."""
    return "\n".join(
        kind["node"]
        + (f" (and {kind['count'] - 1} more of its kind)" if kind["count"] > 1 else "")
        + f": {' '.join(kind['why'])}"
        for kind in kinds
    )


def _about(seconds: int) -> str:
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return count(seconds, "second")


SPECS: Specs = {
    "quantity": quantity,
    "amount": _amount,
    "amounts": lambda pairs: _each([_amount(pair) for pair in pairs]),
    "set": _set,
    "some": _some,
    "placed": _placed,
    "each": _each,
    "apart": Each("{resource} only on {on:some}", " and "),
    # What is free where, and how much is missing there.
    "lacking": Each("NUMA {numa} has {free:quantity} free to pin[[ ({short:quantity} short)]]", ", "),
    "also": lambda sentences: "".join(f"; {sentence}" for sentence in sentences),
    "asking": _asking,
    "gaps": _gaps,
    "stories": _stories,
    "lines": "\n".join,
    "list": lambda parts: ", ".join(map(str, parts)),
    "these": lambda pods: f"{'pod' if len(pods) == 1 else 'pods'} {', '.join(pods)}",
    "own": {"cpu": "CPUs", "memory": "memory"}.__getitem__,
    "threads": lambda number: count(number, "thread"),
    "thousands": lambda number: f"{number:,}",
    "about": _about,
}
