from __future__ import annotations

import pytest

from numaware.twin.state import cpu, device, memory
from numaware.twin.state.verify import Report, verify

CPU = cpu.encode("static", "0,3-7", {"u": {"c": "1-2"}})
MEMORY = memory.encode(
    "Static", {0: memory.NodeEntry(0, {"memory": memory.MemoryTable(9, 1, 8, 0, 8)}, (0,))}, {}
)
DEVICE = device.encode([device.DeviceEntry("u", "c", "x.io/d", {0: ["a"]})], {"x.io/d": ["a"]})
FILES = [(CPU, "cpu", "v2"), (MEMORY, "memory", "v1"), (DEVICE, "device", "v2")]


@pytest.mark.parametrize(("text", "kind", "form"), FILES)
def test_a_good_file_is_recognised_by_its_content(text: str, kind: str, form: str) -> None:
    report = verify(text.encode(), "f")
    assert (report.file, report.kind, report.format, report.valid, report.problem, report.note) == (
        "f",
        kind,
        form,
        True,
        None,
        None,
    )
    assert report.checksum_stored == report.checksum_computed is not None


@pytest.mark.parametrize(("text", "kind", "form"), FILES)
def test_a_wrong_checksum_is_reported_with_both_numbers(text: str, kind: str, form: str) -> None:
    good = verify(text.encode(), "f")
    report = verify(text.replace(str(good.checksum_stored), "7").encode(), "f")
    assert (report.kind, report.format, report.checksum_stored) == (kind, form, 7)
    assert report.checksum_computed == good.checksum_stored
    assert not report.valid
    assert report.problem == f"checkpoint is corrupted: 7 is stored, the content gives {good.checksum_stored}"


def test_a_cpu_file_without_a_checksum_is_valid_and_says_so() -> None:
    report = verify(b'{"policyName":"none","defaultCpuSet":""}', "f")
    assert (report.valid, report.problem, report.checksum_stored) == (True, None, None)
    assert report.note == "no checksum, which the kubelet accepts for this file"


def test_a_memory_file_without_a_checksum_is_not() -> None:
    report = verify(b'{"policyName":"None","machineState":{}}', "f")
    assert not report.valid
    assert report.problem == "checkpoint is corrupted: none is stored, the content gives 4236770233"


def test_a_bad_cpu_list_makes_a_file_with_a_right_checksum_invalid() -> None:
    report = verify(cpu.encode("static", "0-", {}).encode(), "f")
    assert not report.valid
    assert report.checksum_stored == report.checksum_computed
    assert (report.problem or "").startswith('could not parse default cpu set "0-"')


def test_a_pasted_file_is_valid_with_a_note() -> None:
    report = verify(f"$ cat cpu_manager_state\n{CPU}$".encode(), "f")
    assert report.valid
    assert (report.note or "").startswith("not plain JSON as it stands")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "unknown"),
        (b"{}", "unknown"),
        (b'{"Data":"{}","Checksum":1}', "unknown"),
        (b"junk", "unknown"),
        (b'{"defaultCpuSet":1}', "cpu"),
        (b'{"machineState":1}', "memory"),
        (b'{"Data":{"PodDeviceEntries":1}}', "device"),
    ],
)
def test_what_is_no_state_file_is_invalid_with_a_problem(data: bytes, kind: str) -> None:
    report = verify(data, "f")
    assert report.problem
    assert report == Report("f", report.kind, problem=report.problem)
    assert report.kind == kind
