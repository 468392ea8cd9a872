"""What kubelets of different releases make of the same file, in their own words."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaware.errors import InputError
from numaware.twin.rules import rules_for
from numaware.twin.state import cpu, memory
from numaware.twin.state.errors import RefusedCheckpointError
from numaware.twin.state.release import read_cpu, read_memory

V35, V36, V37 = "v1.35.8", "v1.36.4", "v1.37.1"
ENTRIES = {"u": {"c": "1-2"}}
PLAIN = cpu.encode("static", "0,3", ENTRIES)
WRAPPED = cpu.encode("static", "0,3", ENTRIES, wrapped=True)
POD_LEVEL = cpu.encode("static", "0,3", ENTRIES, pods={"u": "1-2"})
OLDEST = '{"policyName":"static","defaultCpuSet":"0,3","entries":{"cid":"1-2"}}'
MEMORY = memory.encode("None", {}, {})
MEMORY_WRAPPED = memory.encode("None", {}, {}, wrapped=True)


def changed(text: str, **fields: object) -> str:
    return json.dumps({**json.loads(text), **fields})


def words(version: str, text: str, *, pod_level: bool = False) -> str:
    with pytest.raises(RefusedCheckpointError) as error:
        read_cpu(text.encode(), rules_for(version), pod_level=pod_level)
    return str(error.value.problem)


@pytest.mark.parametrize("version", ["v1.18.20", "v1.27.16", V35, V36, V37])
@pytest.mark.parametrize("text", [PLAIN, WRAPPED, changed(PLAIN, checksum=0)])
def test_files_are_read_forwards_and_backwards(version: str, text: str) -> None:
    read = read_cpu(text.encode(), rules_for(version))
    assert (read.policy, read.default_cpus, read.entries) == ("static", "0,3", ENTRIES)


@pytest.mark.parametrize(
    ("version", "text", "told"),
    [
        (V35, changed(PLAIN, checksum=1), "checkpoint is corrupted"),
        (
            V36,
            changed(PLAIN, checksum=1),
            "json: cannot unmarshal object into Go struct field CPUManagerCheckpointV1.entries of type string",
        ),
        (V36, changed(cpu.encode("none", "", {}), checksum=1), "checkpoint is corrupted"),
        (V37, changed(PLAIN, checksum=1), "checkpoint is corrupted"),
        (V37, changed(WRAPPED, dataChecksum=1), "could not load v4 checkpoint: checkpoint is corrupted"),
        (
            V37,
            changed(WRAPPED, data='{"policyName":'),
            (
                "could not load v4 checkpoint: failed to deserialize cpu manager checkpoint data: "
                "unexpected end of JSON input"
            ),
        ),
        (
            V37,
            changed(WRAPPED, data=""),
            (
                "could not load v4 checkpoint: failed to deserialize cpu manager checkpoint data: "
                "unexpected end of JSON input"
            ),
        ),
        (
            V35,
            OLDEST,
            (
                "error migrating v1 checkpoint state to v2 checkpoint state: containerID 'cid' not found in initial "
                "containers list"
            ),
        ),
        (
            V36,
            OLDEST,
            "failed to migrate checkpoint from v1 to v2: containerID 'cid' not found in initial containers list",
        ),
        (
            V37,
            OLDEST,
            "json: cannot unmarshal string into Go struct field CPUManagerCheckpointV2.entries of type map[string]string",
        ),
        (
            V36,
            POD_LEVEL,
            "json: cannot unmarshal object into Go struct field CPUManagerCheckpointV1.entries of type string",
        ),
    ],
)
def test_a_damaged_or_foreign_cpu_file_is_refused_in_the_words_of_the_release(
    version: str, text: str, told: str
) -> None:
    assert words(version, text) == told


def test_since_1_37_only_the_inner_content_and_its_checksum_count() -> None:
    outside = changed(WRAPPED, checksum=1, defaultCpuSet="7")
    assert read_cpu(outside.encode(), rules_for(V37)).default_cpus == "0,3"
    no_data = changed(WRAPPED, data="", dataChecksum=0, defaultCpuSet="7", checksum=0)
    assert read_cpu(no_data.encode(), rules_for(V37)).default_cpus == "7"


def test_what_a_whole_pod_holds_is_read_only_by_who_knows_of_it() -> None:
    assert read_cpu(POD_LEVEL.encode(), rules_for(V36), pod_level=True).pods == {"u": "1-2"}
    assert read_cpu(POD_LEVEL.encode(), rules_for(V37)).pods == {"u": "1-2"}
    assert read_cpu(changed(POD_LEVEL, checksum=0).encode(), rules_for(V36), pod_level=True).pods == {}
    inner = cpu.encode("static", "0,3", ENTRIES, pods={"u": "1-2"}, wrapped=True)
    assert "podEntries" not in json.loads(inner)
    assert read_cpu(inner.encode(), rules_for(V37)).pods == {"u": "1-2"}
    assert read_cpu(inner.encode(), rules_for(V35)).pods == {}


def test_a_memory_file_without_a_checksum_is_taken_since_1_36() -> None:
    bare = changed(MEMORY, checksum=0).encode()
    assert read_memory(bare, rules_for(V36)).policy == "None"
    with pytest.raises(RefusedCheckpointError, match="checkpoint is corrupted"):
        read_memory(bare, rules_for(V35))


@pytest.mark.parametrize("version", ["v1.21.14", V35, V36, V37])
def test_memory_files_are_read_forwards_and_backwards(version: str) -> None:
    assert read_memory(MEMORY.encode(), rules_for(version)).policy == "None"
    assert read_memory(MEMORY_WRAPPED.encode(), rules_for(version)).policy == "None"


def test_a_damaged_memory_file_of_1_37() -> None:
    with pytest.raises(RefusedCheckpointError, match="could not load v3 checkpoint: checkpoint is corrupted"):
        read_memory(changed(MEMORY_WRAPPED, dataChecksum=7).encode(), rules_for(V37))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(
    fields=st.dictionaries(
        st.sampled_from(
            [
                "policyName",
                "defaultCpuSet",
                "entries",
                "podEntries",
                "checksum",
                "data",
                "dataChecksum",
                "machineState",
            ]
        ),
        JSON,
    ),
    version=st.sampled_from(["v1.20.0", V35, V36, V37]),
    read=st.sampled_from([read_cpu, read_memory]),
)
def test_any_object_is_read_or_refused(
    fields: dict[str, object], version: str, read: Callable[..., object]
) -> None:
    with contextlib.suppress(InputError):
        read(json.dumps(fields).encode(), rules_for(version))
