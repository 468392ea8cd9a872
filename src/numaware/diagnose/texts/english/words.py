"""Facts as English says them: `{nodes:nodes}`, `{wants:wants}` and the other specs of templates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from numaware.diagnose.texts.template import Each, Specs, listed
from numaware.machine.words import count, size


def _nodes(numbers: Sequence[int]) -> str:
    if not numbers:
        return "no NUMA node"
    if len(numbers) > 2:
        return f"NUMA nodes {_and(numbers)}"
    # Each by its own name, so that somebody who looks for "node 1" finds it.
    return f"NUMA {_and([f'node {one}' for one in numbers])}"


# Each resource's part in an outcome that is not aligned.
_BLAME = {
    "fits": "{resource} would fit on {nodes:sets}",
    "wide": "{resource} needs {nodes:sets} even on an empty machine",
    "fragmented": "{resource} could do with fewer NUMA nodes, but what is free to pin lies on {nodes:sets}",
    "nowhere": "{resource} fits on no set of NUMA nodes",
}


# What a file is that no evidence was found in.
_UNREAD = {
    "empty": "{file} is empty",
    "binary": "{file} is binary",
    "no-entries": "{file} says that the journal has no entries for what was asked",
    "other-log": "{file} is a log of {programs:and}, none of which is a kubelet",
    "text": "{file} holds no line that is known",
}


def _devices(held: Mapping[str, Mapping[str, int]]) -> str:
    """How many of each device on which NUMA node; -1 is none."""
    return _and(
        [
            f"{number} {resource} on {_nodes([int(node)]) if node != '-1' else 'no NUMA node'}"
            for resource, nodes in held.items()
            for node, number in nodes.items()
        ]
    )


def _and(parts: Iterable[object]) -> str:
    return listed([str(part) for part in parts], ", ", " and ")


def _or(parts: Iterable[object]) -> str:
    return listed([str(part) for part in parts], ", ", " or ")


def _duration(seconds: float) -> str:
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= 2 * length:
            return count(round(seconds / length), unit)
    return f"{seconds:.3g} s"


def _sentence(text: str) -> str:
    shown = text[:1].upper() + text[1:]
    return shown if shown.endswith((".", "!", "?")) else f"{shown}."


SPECS: Specs = {
    "": str,
    "nodes": _nodes,
    "sets": lambda sets: _or(map(_nodes, sets)) or "no NUMA node",
    "wants": Each("{resource} can be had {nodes:only}on {nodes:sets}", ", ", " and "),
    "only": lambda sets: "only " if len(sets) == 1 else "",
    "blame": Each(_BLAME, "; "),
    "holders": Each("{pod} ({amount:amount} on {nodes:nodes})", ", ", " or "),
    "unread": Each(_UNREAD, "; "),
    "room": Each("{resource} on {nodes:nodes}", ", ", " or "),
    "managers": Each("the {manager} with policy {policy}", ", ", " and "),
    "free": lambda free: _and(f"{amount} on NUMA node {node}" for node, amount in free.items()),
    "devices": _devices,
    "pods": lambda number: count(number, "pod"),
    "errors": lambda number: count(number, "error"),
    "warnings": lambda number: count(number, "warning"),
    "files": lambda number: count(number, "file"),
    "numa": lambda number: count(number, "NUMA node"),
    "cores": lambda number: count(number, "core"),
    "and": _and,
    "or": _or,
    "cpus": lambda number: count(number, "CPU"),
    "size": size,
    "duration": _duration,
    "sentence": _sentence,
}
