"""What a starting kubelet of one release makes of its CPU and memory files, or its words when it does not take one.

Mirrors `state_checkpoint.go` of both managers, v1.18 to v1.37. Releases try layouts in different orders, and when none
fits they report the failure of the last attempt, which is why one damaged file has several error messages. `files.py`
calls this with the rules of a node's kubelet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from numaware.twin.rules import Rules
from numaware.twin.state import cpu, document, memory
from numaware.twin.state.errors import CORRUPT, RefusedCheckpointError, UnlikeError, checked

Stored = TypeVar("Stored", cpu.CpuCheckpoint, memory.MemoryCheckpoint)


def read_cpu(data: bytes, rules: Rules, pod_level: bool = False) -> cpu.CpuCheckpoint:
    """The content of a CPU file; `pod_level` where the gate PodLevelResourceManagers is open.

    `RefusedCheckpointError` where a kubelet of that release would not take it, `InputError` where it is no such file.
    """
    fields = document.read(data, cpu.FILE).fields
    if rules.wrapped_files and (inner := _unwrapped(fields, cpu.FILE, "v4", "cpu", cpu.parse_as)):
        return inner
    forms = _cpu_forms(rules, pod_level=pod_level)
    try:
        checkpoint = cpu.parse_as(fields, forms)
    except UnlikeError as error:
        raise RefusedCheckpointError(cpu.FILE, _unlike(error.form, rules)) from None
    except (ValueError, RecursionError) as error:
        raise document.not_this(cpu.FILE, cpu.FILE, error) from None
    if checkpoint.by_container_id and checkpoint.stamp.accepted:
        # The containers that run when a kubelet starts are known to nobody here: none of them counts as found.
        lost = f"containerID '{min(checkpoint.by_container_id)}' not found in initial containers list"
        step = (
            "failed to migrate checkpoint from v1 to v2"
            if rules.files_newest_first
            else "error migrating v1 checkpoint state to v2 checkpoint state"
        )
        raise RefusedCheckpointError(cpu.FILE, f"{step}: {lost}")
    if not checkpoint.stamp.accepted and forms[-1] == "v1" and checkpoint.entries:
        raise RefusedCheckpointError(cpu.FILE, _unlike("v1", rules))
    checked(cpu.FILE, checkpoint.stamp)
    return checkpoint


def read_memory(data: bytes, rules: Rules, pod_level: bool = False) -> memory.MemoryCheckpoint:
    """The content of a memory file, as `read_cpu` of the other."""
    fields = document.read(data, memory.FILE).fields
    if rules.wrapped_files and (inner := _unwrapped(fields, memory.FILE, "v3", "memory", memory.parse_as)):
        return inner
    forms = ("v2", "v1") if rules.wrapped_files or pod_level else ("v1",)
    try:
        checkpoint = memory.parse_as(fields, forms, ("v1",) if rules.files_newest_first else ())
    except (ValueError, RecursionError) as error:
        raise document.not_this(memory.FILE, memory.FILE, error) from None
    checked(memory.FILE, checkpoint.stamp)
    return checkpoint


def _cpu_forms(rules: Rules, *, pod_level: bool) -> tuple[str, ...]:
    if rules.wrapped_files:
        return ("v3", "v2")
    if not rules.files_newest_first:
        return ("v1", "v2")
    return ("v3", "v2", "v1") if pod_level else ("v2", "v1")


def _unlike(form: str, rules: Rules) -> str:
    """What Go says to entries of another shape than layout `form` has."""
    if form == "v1":
        return (
            "json: cannot unmarshal object into Go struct field CPUManagerCheckpointV1.entries of type string"
        )
    name = "CPUManagerCheckpointV2" if rules.files_newest_first else "CPUManagerCheckpoint"
    return f"json: cannot unmarshal string into Go struct field {name}.entries of type map[string]string"


def _unwrapped(
    fields: Mapping[str, Any],
    file: str,
    form: str,
    manager: str,
    parse_as: Callable[[Mapping[str, Any]], Stored],
) -> Stored | None:
    """The content of the text that files of 1.37 hold; None where there is no such text, and the fields around it count."""
    try:
        wrapper = msgspec.convert(fields, document.Wrapper)
    except ValueError as error:
        raise document.not_this(file, file, error) from None
    if not wrapper.data and not wrapper.datachecksum:
        return None
    stamp = wrapper.stamp(form)
    begin = f"could not load {form} checkpoint"
    try:
        content = parse_as(document.fields_of(wrapper.data))
    except (ValueError, RecursionError) as error:
        cause = "unexpected end of JSON input" if "truncated" in str(error) else str(error)
        raise RefusedCheckpointError(
            file, f"{begin}: failed to deserialize {manager} manager checkpoint data: {cause}"
        ) from None
    if not stamp.accepted:
        raise RefusedCheckpointError(file, f"{begin}: {CORRUPT}")
    return msgspec.structs.replace(content, stamp=stamp)
