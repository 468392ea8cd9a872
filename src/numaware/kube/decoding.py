"""What reading one object of the API server has in common, whatever its kind.

Objects come in by the thousand and are mostly things nobody here looks at, so each is read straight into a struct of the
few fields that matter. What comes from a cluster is never taken on trust: an object that cannot be read is one
`DecodeError`, and whoever keeps a cache goes on without it. Of an object that must not be lost (a pod holds something of its
node whatever else is wrong with it) `Reader.read_in_parts` gives what can be read, and says what cannot.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any, Generic, TypeVar, get_args, get_origin

import msgspec
from msgspec import UNSET

from numaware.kube.errors import UNREADABLE, ApiError
from numaware.machine.quantity import Quantity
from numaware.machine.words import printable

# etcd takes no object beyond 1.5 MiB; nothing larger can be an honest one.
MOST_BYTES = 4 << 20

_Wire = TypeVar("_Wire")


class DecodeError(ValueError):
    """One object that cannot be read: which one, and why."""

    def __init__(self, subject: str, message: str) -> None:
        self.subject = subject
        self.message = message
        super().__init__(f"{subject}: {message}")


class Wire(msgspec.Struct, rename="camel"):
    """Part of an object as it stands on the wire: camelCase keys, unknown ones passed over."""


class OwnerReference(msgspec.Struct, frozen=True, rename="camel"):
    """An object this one belongs to, with all that an event about it has to name."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    """One condition of an object, and since when it is so."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


def condition(conditions: Iterable[Condition] | None, kind: str) -> Condition:
    """The condition of that type; one that says nothing where the object has none."""
    return next((one for one in conditions or () if one.type == kind), Condition())


class Metadata(Wire):
    """What every object says of itself."""

    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


def node_owner(metadata: Metadata) -> str:
    """The uid of the Node that an object belongs to, empty if it belongs to none."""
    return next((owner.uid for owner in metadata.owner_references or () if owner.kind == "Node"), "")


class _Named(Wire):
    name: str = ""
    namespace: str = ""


class _Identity(Wire):
    metadata: _Named


# Just enough to say which object it was when the rest makes no sense.
_IDENTITY = msgspec.json.Decoder(_Identity)


class Reader(Generic[_Wire]):
    """Reads objects of one kind; `kind` is what people call it in a message."""

    def __init__(self, kind: str, wire: type[_Wire]) -> None:
        self.kind = kind
        self._wire = wire
        self._decoder = msgspec.json.Decoder(wire)

    def read(self, raw: bytes | msgspec.Raw) -> _Wire:
        """The fields that matter; `DecodeError` for what is not such an object."""
        if memoryview(raw).nbytes > MOST_BYTES:
            raise DecodeError(self.kind, f"larger than {MOST_BYTES >> 20} MiB, which no object is")
        try:
            return self._decoder.decode(raw)
        except UNREADABLE as error:
            raise self.refused(raw, str(error)) from None

    def read_in_parts(self, raw: bytes | msgspec.Raw) -> tuple[_Wire, str]:
        """The fields that can be read, and what is wrong with the first that cannot, empty if all can.

        `DecodeError` for what is no object at all, or has no name.
        """
        try:
            return self.read(raw), ""
        except DecodeError:
            if memoryview(raw).nbytes > MOST_BYTES:
                raise
        problems: list[str] = []
        try:
            return _part(raw, self._wire, "", problems), printable(problems[0] if problems else "", 400)
        except UNREADABLE as error:
            raise self.refused(raw, str(error)) from None

    def answered(self, answer: bytes) -> _Wire:
        """The same for the answer to a call, which has failed if it is not such an object: `ApiError`."""
        try:
            return self.read(answer)
        except DecodeError as error:
            raise ApiError(0, "BadAnswer", str(error)) from None

    def name_of(self, raw: bytes | msgspec.Raw) -> str:
        """The name of an object that may be wrong in every other way; `DecodeError` if it has none."""
        try:
            name = _IDENTITY.decode(raw).metadata.name
        except UNREADABLE as error:
            raise DecodeError(self.kind, printable(str(error), 400)) from None
        if not name:
            raise DecodeError(self.kind, "has no name")
        return name

    def refused(self, raw: bytes | msgspec.Raw, message: str) -> DecodeError:
        """The error for an object, with the name it goes by if it has one."""
        named = _Named()
        with suppress(*UNREADABLE):
            named = _IDENTITY.decode(raw).metadata
        name = "/".join(printable(part, 260) for part in (named.namespace, named.name) if part)
        return DecodeError(f"{self.kind} {name}" if name else self.kind, printable(message, 400))


def _part(raw: bytes | msgspec.Raw, kind: Any, path: str, problems: list[str]) -> Any:
    """`raw` as a value of that type, without the fields and members within that are none; `UNREADABLE` if nothing is left."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except UNREADABLE as error:
        struct, listed = _struct_in(kind)
        wanted: Any = list[msgspec.Raw] if listed else dict[str, msgspec.Raw]
        try:
            if struct is None:
                raise
            within = msgspec.json.decode(raw, type=wanted)
        except UNREADABLE:
            raise ValueError(f"{path}: {error}" if path else str(error)) from None
    if listed:
        members = [(f"{path}[{index}]", member) for index, member in enumerate(within)]
        read = [_read_part(member, struct, where, problems) for where, member in members]
        return tuple(one for one in read if one is not UNSET)
    values = {}
    for field in msgspec.structs.fields(struct):
        below = f"{path}.{field.encode_name}" if path else field.encode_name
        if field.encode_name in within:
            value = _read_part(within[field.encode_name], field.type, below, problems)
            if value is not UNSET:
                values[field.name] = value
        if field.required and field.name not in values:
            raise ValueError(f"{below}: Required value")
    return struct(**values)


def _read_part(raw: msgspec.Raw, kind: Any, path: str, problems: list[str]) -> Any:
    """The same, but what cannot be read at all is a problem, and UNSET."""
    try:
        return _part(raw, kind, path, problems)
    except UNREADABLE as error:
        problems.append(str(error))
        return UNSET


def _struct_in(kind: Any) -> tuple[type[msgspec.Struct] | None, bool]:
    """The struct that a type is, or may be, and whether it is one or a tuple of any number of them."""
    for one in (kind, *get_args(kind)):
        if isinstance(one, type) and issubclass(one, msgspec.Struct):
            return one, get_origin(kind) is tuple
        if get_origin(one) is tuple and one is not kind:
            return _struct_in(one)
    return None, False


@lru_cache(maxsize=4096)
def count(name: str, text: str | int) -> int:
    """An amount as schedulers count it: CPU in thousandths, everything else in whole units; ValueError if it is none."""
    quantity = Quantity.parse(text)
    if quantity.nano < 0:
        raise ValueError(f"{printable(name, 80)} is below zero: {quantity}")
    return quantity.milli_value if name == "cpu" else quantity.value
