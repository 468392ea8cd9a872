"""Compare what the twin said with what a kubelet was recorded saying, leaving out what the kubelet leaves to chance."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple


class Difference(NamedTuple):
    """One place where the two disagree, as a JSON pointer into the result."""

    path: str
    recorded: object
    twin: object


def differences(recorded: dict[str, Any], twin: dict[str, Any]) -> list[Difference]:
    """Where the twin disagrees within the comparable part of a recording.

    Only the first `compareEvents` events count, paths in `unstable` do not, and files whose list order is random are
    compared by content.
    """
    unstable = tuple(recorded.get("unstable", ()))
    count = recorded.get("compareEvents", len(recorded["events"]))
    pairs = [("/start", recorded["start"], twin["start"])]
    for index, event in enumerate(recorded["events"][:count]):
        other = twin["events"][index] if index < len(twin["events"]) else None
        pairs.append((f"/events/{index}", event, other))
    found: list[Difference] = []
    for path, one, other in pairs:
        found.extend(_walk(path, one, other, unstable))
    return found


def _walk(path: str, recorded: object, twin: object, unstable: tuple[str, ...]) -> Iterator[Difference]:
    # Nearly all of a recording agrees to the letter: only what differs is worth a closer look.
    if recorded == twin:
        return
    if any(path == skip or path.startswith(skip + "/") for skip in unstable):
        return
    if isinstance(recorded, dict) and isinstance(twin, dict):
        for key in sorted(recorded):
            child = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            yield from _walk(child, recorded[key], twin.get(key), unstable)
        # What the twin says beyond the recording contradicts it, unless it is empty or the recorder did not ask.
        for key in sorted(twin.keys() - recorded.keys() - _NOT_ALWAYS_RECORDED):
            if twin[key]:
                yield Difference(f"{path}/{key}", None, twin[key])
    elif isinstance(recorded, list) and isinstance(twin, list) and len(recorded) == len(twin):
        for index, (one, other) in enumerate(zip(recorded, twin, strict=True)):
            yield from _walk(f"{path}/{index}", one, other, unstable)
    elif _normal(path, recorded) != _normal(path, twin):
        yield Difference(path, recorded, twin)


_NOT_ALWAYS_RECORDED = frozenset(("allocatableCPUs",))
_UNORDERED = ("/memory_manager_state", "/kubelet_internal_checkpoint")


def _normal(path: str, value: object) -> object:
    if isinstance(value, str) and path.endswith(_UNORDERED):
        content = json.loads(value)
        content.pop("checksum", None)
        content.pop("Checksum", None)
        return _sorted(content)
    return value


def _sorted(value: object) -> object:
    """Every list in an order that depends only on its content."""
    if isinstance(value, dict):
        return {key: _sorted(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(map(_sorted, value), key=lambda item: json.dumps(item, sort_keys=True))
    return value
