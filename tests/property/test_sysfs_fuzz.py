"""Whatever is done to a capture, reading it gives a sound machine or one error, never anything else."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from numaware.errors import InputError
from numaware.machine import sysfs
from numaware.machine.archive import Entry
from numaware.machine.codec import decode, encode
from numaware.machine.cpuset import MAX_ID
from numaware.machine.topology import Machine
from numaware.machine.tree import ArchiveTree, Tree, open_tree
from property.damaged_capture import WHOLE, damaged_entries


def machine_or_error(read: Callable[[], Tree]) -> Machine | InputError:
    try:
        return sysfs.read(read())
    except InputError as error:
        return error


def check_sound(outcome: Machine | InputError, source: str) -> None:
    """One line about the source, or a machine that has what everyone relies on."""
    if isinstance(outcome, InputError):
        assert str(outcome).startswith(source)
        assert "\n" not in str(outcome)
        return
    online = outcome.online
    ids = [cpu.id for cpu in outcome.cpus]
    assert ids == sorted(set(ids))
    assert ids[-1] <= MAX_ID
    for cpu in outcome.cpus:
        assert cpu.siblings <= online
        assert cpu.id in cpu.siblings or not cpu.online
    for node in outcome.numa:
        assert node.cpus <= online
        assert node.nearest_cpus <= online
        assert 0 <= node.id <= MAX_ID
    assert all(cache.cpus <= online and cache.cpus for cache in outcome.caches)
    assert len(outcome.warnings) <= 51
    assert decode(encode(outcome)) == outcome


def check_capture(entries: dict[str, Entry]) -> None:
    check_sound(machine_or_error(lambda: ArchiveTree(entries, "damaged")), "damaged")


@given(damaged_entries())
@settings(max_examples=300)
def test_a_damaged_capture_is_a_sound_machine_or_one_error(entries: dict[str, Entry]) -> None:
    check_capture(entries)


def packed() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for name, text in WHOLE.items():
            member = tarfile.TarInfo(name)
            content = b"" if text.startswith("->") else text.encode()
            member.type = tarfile.REGTYPE if content else tarfile.SYMTYPE
            member.linkname = text[2:]
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


PACKED = packed()


@given(
    st.lists(st.tuples(st.integers(0, len(PACKED) - 1), st.binary(min_size=1, max_size=12)), max_size=6),
    st.integers(len(PACKED) // 2, len(PACKED)),
)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_archive_is_a_sound_machine_or_one_error(
    tmp_path: Path, damage: list[tuple[int, bytes]], length: int
) -> None:
    data = bytearray(PACKED)
    for place, content in damage:
        data[place : place + len(content)] = content
    path = tmp_path / "capture.tar"
    path.write_bytes(data[:length])
    check_sound(machine_or_error(lambda: open_tree(path)), str(path))
