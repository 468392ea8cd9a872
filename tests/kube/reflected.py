"""What the tests of the reflector keep of an object, and a listener that writes everything down."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import msgspec

from numaware.kube.errors import ApiError
from numaware.kube.reflector import Change


class Thing(msgspec.Struct, frozen=True):
    """What the tests keep of an object."""

    uid: str
    size: int


def decode(raw: bytes) -> Thing | None:
    """Size 0 is none of ours, and one that is not a number cannot be read."""
    told = msgspec.json.decode(raw)
    size = told.get("size", 1)
    if not isinstance(size, int):
        raise TypeError(f"size is {size!r}")
    return Thing(told["metadata"]["uid"], size) if size else None


@dataclass
class Told:
    """All that a reflector has told."""

    changes: list[tuple[str, str]] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    whole: list[Change[Thing]] = field(default_factory=list)

    def change(self, change: Change[Thing]) -> None:
        kind = "added" if change.old is None else "modified" if change.new is not None else "deleted"
        self.changes.append((kind, change.key))
        self.whole.append(change)

    def sum(self) -> dict[str, tuple[str, int]]:
        """What someone has who only adds up the changes; each must begin where the last one of its object ended."""
        found: dict[str, Thing] = {}
        for change in self.whole:
            assert found.pop(change.key, None) == change.old
            assert change.old is not None or change.new is not None
            if change.new is not None:
                assert change.old is None or change.old.uid == change.new.uid
                found[change.key] = change.new
        return {key: (thing.uid, thing.size) for key, thing in found.items()}

    def problem(self, key: str, message: str) -> None:
        self.problems.append((key, message))

    def trouble(self, error: ApiError) -> None:
        self.troubles.append(str(error))

    async def sleep(self, seconds: float) -> None:
        """A wait that is written down, and is over at once."""
        self.waits.append(seconds)
        await asyncio.sleep(0)
