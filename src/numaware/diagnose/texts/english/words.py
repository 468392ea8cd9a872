"""Facts as English says them: `{nodes:nodes}`, `{wants:wants}` and the other specs of templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numaware.diagnose.texts.template import Specs
from numaware.machine.words import count, size


def _nodes(numbers: Sequence[int]) -> str:
    if not numbers:
        return "no NUMA node"
    if len(numbers) > 2:
        return f"NUMA nodes {_and(numbers)}"
    # Each by its own name, so that somebody who looks for "node 1" finds it.
    return f"NUMA {_and([f'node {one}' for one in numbers])}"


def _sets(sets: Sequence[Sequence[int]]) -> str:
    return _or([_nodes(one) for one in sets]) if sets else "no NUMA node"


def _wants(wishes: Sequence[Mapping[str, Any]]) -> str:
    return _and(
        [
            f"{wish['resource']} can be had {'only ' if len(wish['nodes']) == 1 else ''}on {_sets(wish['nodes'])}"
            for wish in wishes
        ]
    )


def _blame(parts: Sequence[Mapping[str, Any]]) -> str:
    """Each resource's part in an outcome that is not aligned."""
    states = {
        "fits": "{} would fit on {}",
        "wide": "{} needs {} even on an empty machine",
        "fragmented": "{} could do with fewer NUMA nodes, but what is free lies on {}",
        "nowhere": "{} fits on no set of NUMA nodes",
    }
    sentences = [states[part["state"]].format(part["resource"], _sets(part["nodes"])) for part in parts]
    return f"{'; '.join(sentences)}."


def _room(parts: Sequence[Mapping[str, Any]]) -> str:
    return _or([f"{part['resource']} on {_nodes(part['nodes'])}" for part in parts])


def _devices(held: Mapping[str, Mapping[str, int]]) -> str:
    """How many of each device on which NUMA node; -1 is none."""
    return _and(
        [
            f"{number} {resource} on {_nodes([int(node)]) if node != '-1' else 'no NUMA node'}"
            for resource, nodes in held.items()
            for node, number in nodes.items()
        ]
    )


def _free(amounts: Mapping[str, str]) -> str:
    return _and([f"{amount} on NUMA node {node}" for node, amount in amounts.items()])


def _managers(parts: Sequence[Mapping[str, str]]) -> str:
    return _and([f"the {part['manager']} with policy {part['policy']}" for part in parts])


def _and(parts: Sequence[object]) -> str:
    return _listed([str(part) for part in parts], "and")


def _or(parts: Sequence[object]) -> str:
    return _listed([str(part) for part in parts], "or")


def _listed(parts: Sequence[str], word: str) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {word} {parts[-1]}"


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
    "sets": _sets,
    "wants": _wants,
    "blame": _blame,
    "room": _room,
    "managers": _managers,
    "free": _free,
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
