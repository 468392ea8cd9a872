"""Compare what the twin said with what a kubelet was recorded saying, leaving out what the kubelet leaves to chance."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from numaware.twin.recording import Result


class Difference(NamedTuple):
    """One place where the two disagree, as a JSON pointer into the result."""

    path: str
    recorded: object
    twin: object


def differences(recorded: Result, twin: Mapping[str, Any]) -> list[Difference]:
    """Where the twin disagrees within the comparable part of a recording.

    Paths in `unstable` do not count, and files whose list order is random are compared by content.
    """
    events = list(recorded.comparable)
    # A twin that ended early has nothing to say about the rest, and that is a difference too.
    answers = [*twin["events"][: len(events)], *[None] * (len(events) - len(twin["events"]))]
    return list(
        _walk(
            "",
            {"start": recorded.start, "events": events},
            {"start": twin["start"], "events": answers},
            frozenset(recorded.unstable),
        )
    )


def _walk(path: str, recorded: object, twin: object, unstable: frozenset[str]) -> Iterator[Difference]:
    # Nearly all of a recording agrees to the letter: only what differs is worth a closer look.
    if recorded == twin or path in unstable:
        return
    if isinstance(recorded, dict) and isinstance(twin, dict):
        # What the twin says beyond the recording contradicts it, unless it is empty or the recorder did not ask.
        beyond = {key for key in twin.keys() - recorded.keys() - _NOT_ALWAYS_RECORDED if twin[key]}
        for key in sorted(recorded.keys() | beyond):
            child = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            yield from _walk(child, recorded.get(key), twin.get(key), unstable)
    elif isinstance(recorded, list) and isinstance(twin, list) and len(recorded) == len(twin):
        for index, (one, other) in enumerate(zip(recorded, twin, strict=True)):
            yield from _walk(f"{path}/{index}", one, other, unstable)
    elif _normal(path, recorded, unstable) != _normal(path, twin, unstable):
        yield Difference(path, recorded, twin)


_NOT_ALWAYS_RECORDED = frozenset(("allocatableCPUs",))
_UNORDERED = ("/memory_manager_state", "/kubelet_internal_checkpoint")


def _normal(path: str, value: object, unstable: frozenset[str]) -> object:
    if not isinstance(value, str) or not path.endswith(_UNORDERED):
        return value
    try:
        content = json.loads(value)
    except (ValueError, RecursionError):
        return value
    if isinstance(content, dict):
        content.pop("checksum", None)
        content.pop("Checksum", None)
        # The same content as text, which cannot be sorted: what depends on the order of blocks is listed as such.
        content = {key: item for key, item in content.items() if f"{path}/{key}" not in unstable}
    return _sorted(content)


def _sorted(value: object) -> object:
    """Every list in an order that depends only on its content."""
    if isinstance(value, dict):
        return {key: _sorted(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(map(_sorted, value), key=lambda item: json.dumps(item, sort_keys=True))
    return value
