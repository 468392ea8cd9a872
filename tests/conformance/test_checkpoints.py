"""Every state file that a real kubelet wrote and we know of: recorded, collected, or printed in an article."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from numaware.twin.state import cpu, device, memory
from numaware.twin.state.alloc_response import one_variable
from numaware.twin.state.verify import verify
from support.shared_data import shared

VECTORS = Path(__file__).parents[1] / "vectors" / "kubelet"
GROUPS = sorted(path.name.removesuffix(".jsonl.gz") for path in VECTORS.glob("*.jsonl.gz"))
# Recorded with the gate PodLevelResourceManagers open.
WHOLE_PODS = {group for group in GROUPS if group.startswith("pod-level-")}
Files = dict[str, str]


class _Moment(msgspec.Struct, rename="camel"):
    checkpoints: Files | None = None
    checkpoints_before_cleanup: Files | None = None


class _Result(msgspec.Struct):
    start: _Moment
    events: list[_Moment] | None = None


class _Line(msgspec.Struct):
    result: _Result


def recorded(group: str) -> dict[str, set[str]]:
    """The different texts of each file in a group: most events leave most files as they were."""
    texts: dict[str, set[str]] = {cpu.FILE: set(), memory.FILE: set(), device.FILE: set()}
    decoder = msgspec.json.Decoder(_Line)
    with gzip.open(VECTORS / f"{group}.jsonl.gz") as lines:
        for line in lines:
            result = decoder.decode(line).result
            for moment in (result.start, *(result.events or ())):
                for files in (moment.checkpoints, moment.checkpoints_before_cleanup):
                    for name, text in (files or {}).items():
                        texts[name].add(text)
    return texts


@pytest.mark.parametrize("group", GROUPS)
def test_every_recorded_file_is_read_and_written_back(group: str) -> None:
    texts = recorded(group)
    assert texts[cpu.FILE]
    wrapped = group.endswith("-v1.37")
    for text in texts[cpu.FILE]:
        state = cpu.decode(text)
        # Where pods may have CPUs as a whole, the same file is a form of its own.
        assert state.stamp.form in ({"v4"} if wrapped else {"v2", "v3"} if group in WHOLE_PODS else {"v2"})
        pods = state.pods if state.pods or state.stamp.form == "v3" else None
        assert cpu.encode(state.policy, state.default_cpus, state.entries, pods=pods, wrapped=wrapped) == text
    for text in texts[memory.FILE]:
        assert_memory_file_survives(text, wrapped=wrapped)
    for text in texts[device.FILE]:
        assert_device_file_survives(text)


def assert_memory_file_survives(text: str, *, wrapped: bool) -> None:
    """Same bytes, unless the kubelet happened to list a container's blocks in another order than ours."""
    state = memory.decode(text)
    pods = state.pods if state.pods or state.stamp.form == "v2" else None
    written = memory.encode(state.policy, state.machine_state, state.entries, pods=pods, wrapped=wrapped)
    blocks = [held for containers in state.entries.values() for held in containers.values()]
    blocks += state.pods.values()
    if all(list(held) == sorted(held, key=lambda block: block.type) for held in blocks):
        assert written == text
    else:
        assert sorted_lists(written) == sorted_lists(text)


def assert_device_file_survives(text: str) -> None:
    """Same content (the kubelet's order is chance), and each plugin answer is the one we foretell."""
    state = device.decode(text)
    assert state.stamp.form == "v2"
    assert sorted_lists(device.encode(state.entries, state.registered)) == sorted_lists(text)
    for entry in state.entries:
        ids = {name for names in entry.devices.values() for name in names}
        assert one_variable(ids) == entry.alloc_response


def sorted_lists(text: str) -> object:
    def ordered(value: object) -> object:
        if isinstance(value, dict):
            return {
                key: ordered(json.loads(item)) if key == "data" and isinstance(item, str) else ordered(item)
                for key, item in value.items()
                if key.lower() not in ("checksum", "datachecksum")
            }
        if isinstance(value, list):
            return sorted(map(ordered, value), key=repr)
        return value

    return ordered(json.loads(text))


def test_every_collected_file_verifies_to_its_checksum() -> None:
    folder = shared("data", "kubelet-state")
    index = json.loads((folder / "index.json").read_text())
    assert index
    for entry in index:
        report = verify((folder / entry["file"]).read_bytes(), entry["file"])
        assert report.kind == KINDS[entry["kind"]], entry["file"]
        # A documentation example that was edited by hand: `cells` is called `nodes` there.
        edited = "documentation example" in entry["note"]
        assert report.valid is not edited, report
        assert entry.get("checksum_valid", True)


KINDS = {cpu.FILE: "cpu", memory.FILE: "memory", device.FILE: "device"}


def printed_in(text: str) -> Iterator[str]:
    """Each state file that an article shows, in the middle of a terminal session or not."""
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        end = start + 1
        try:
            value, end = decoder.raw_decode(text, start)
        except ValueError:
            value = {}
        if isinstance(value, dict) and {"checksum", "Checksum"} & value.keys():
            yield text[start:end]
        start = text.find("{", end)


def test_every_state_file_printed_in_an_article_verifies() -> None:
    found = []
    for article in sorted(shared("seeds").glob("*.txt")):
        text = article.read_text()
        printed = list(printed_in(text))
        # Nothing is overlooked: each of these words stands in a state file and nowhere else.
        assert len(printed) == text.count('"policyName"') + text.count('"PodDeviceEntries"'), article.name
        found += [verify(file.encode(), article.name) for file in printed]
    assert [report for report in found if not report.valid] == []
    assert {(report.kind, report.format) for report in found} == {("cpu", "v2"), ("device", "v2")}
