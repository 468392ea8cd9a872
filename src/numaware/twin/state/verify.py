"""Is this state file one that a kubelet would take back? A verdict on any file, never an exception."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from numaware.errors import InputError
from numaware.twin.state import cpu, device, document, memory
from numaware.twin.state.checksum import Stamp
from numaware.twin.state.errors import CORRUPT

Kind = Literal["cpu", "memory", "device", "unknown"]
Checkpoint = cpu.CpuCheckpoint | memory.MemoryCheckpoint | device.DeviceCheckpoint


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """The verdict. `note` is what a person should know about a file that is fine all the same."""

    file: str
    kind: Kind = "unknown"
    format: str | None = None
    checksum_stored: int | None = None
    checksum_computed: int | None = None
    valid: bool = False
    problem: str | None = None
    note: str | None = None


def verify(data: bytes, source: str) -> Report:
    """Judge a file by its content; its name plays no part."""
    try:
        content = document.read(data, source)
    except InputError as error:
        return Report(source, problem=str(error.problem))
    kind = kind_of(content.fields)
    try:
        checkpoint = parse(content.fields, source)
    except InputError as error:
        return Report(source, kind, problem=str(error.problem))
    stamp = checkpoint.stamp
    return Report(
        source,
        kind,
        stamp.form,
        stamp.stored,
        stamp.computed,
        valid=(problem := _problem(checkpoint)) is None,
        problem=problem,
        note=_note(stamp, as_written=content.as_written),
    )


def kind_of(fields: Mapping[str, Any]) -> Kind:
    """Which of the three files has these fields (lower case, as `document.read` gives them)."""
    if "machinestate" in fields:
        return "memory"
    if "defaultcpuset" in fields:
        return "cpu"
    return "device" if isinstance(fields.get("data"), dict) else "unknown"


def parse(fields: Mapping[str, Any], source: str) -> Checkpoint:
    """Read any of the three files without judging its checksum."""
    match kind_of(fields):
        case "cpu":
            return cpu.parse(fields, source)
        case "memory":
            return memory.parse(fields, source)
        case "device":
            return device.parse(fields, source)
    raise InputError(
        source, "not a kubelet state file", hint=f"expected {cpu.FILE}, {memory.FILE} or {device.FILE}"
    )


def _problem(checkpoint: Checkpoint) -> str | None:
    stamp = checkpoint.stamp
    if not stamp.accepted:
        stored = "none is stored" if stamp.stored is None else f"{stamp.stored} is stored"
        return f"{CORRUPT}: {stored}, the content gives {stamp.computed}"
    return cpu.unreadable_list(checkpoint) if isinstance(checkpoint, cpu.CpuCheckpoint) else None


def _note(stamp: Stamp, *, as_written: bool) -> str | None:
    notes = []
    if stamp.unchecked:
        notes.append("no checksum, which the kubelet accepts for this file")
    if not as_written:
        notes.append("not plain JSON as it stands: text around or inside the object was left out")
    return "; ".join(notes) or None
