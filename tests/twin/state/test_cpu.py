"""The checksums here were computed by Go's own formatter over the kubelet's types, or stand in the kubelet's documentation."""

from __future__ import annotations

import json

import pytest

from numaware.errors import InputError
from numaware.twin.state.cpu import CpuCheckpoint, decode, encode
from numaware.twin.state.errors import CorruptCheckpointError, policy_changed, restore_error
from support.old_state_files import cpu_state_v1

ENTRIES = {"pod-b": {"b": "1", "a": "2"}}
CONTENT = '"policyName":"static","defaultCpuSet":"0,3-7","entries":{"pod-b":{"a":"2","b":"1"}}'
V1 = '{"policyName":"static","defaultCpuSet":"0,3-7","entries":{"c0ffee":"1-2"},"checksum":499793697}'
V2 = f'{{{CONTENT},"checksum":2872188857}}'
V3 = f'{{{CONTENT},"podEntries":{{"pod-a":{{"cpuSet":"8-10"}}}},"checksum":2444496728}}'
V4 = json.dumps({"policyName": "other", "defaultCpuSet": "", "checksum": 1, "data": f"{{{CONTENT}}}"})
V4 = V4.removesuffix("}") + ', "dataChecksum": 282073658}'


def test_the_file_of_policy_none_is_the_one_every_kubelet_writes() -> None:
    assert encode("none", "", {}) == '{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'


def test_the_file_of_policy_none_before_1_18_had_another_checksum() -> None:
    old = '{"policyName":"none","defaultCpuSet":"","checksum":3242152201}'
    assert cpu_state_v1("none", "", {}) == old
    assert decode(old).stamp.form == "v1"


def test_encode_writes_pods_and_containers_in_order() -> None:
    assert encode("static", "0,3-7", ENTRIES) == V2


def test_the_old_layout_is_by_container_id() -> None:
    assert cpu_state_v1("static", "0,3-7", {"c0ffee": "1-2"}) == V1
    old = decode(V1)
    assert (old.stamp.form, old.entries, old.by_container_id) == ("v1", {}, {"c0ffee": "1-2"})


@pytest.mark.parametrize(("text", "form"), [(V2, "v2"), (V3, "v3"), (V4, "v4")])
def test_decode_knows_each_layout(text: str, form: str) -> None:
    checkpoint = decode(text)
    assert checkpoint.stamp.form == form
    assert (checkpoint.policy, checkpoint.default_cpus, checkpoint.entries) == ("static", "0,3-7", ENTRIES)


def test_cpus_of_a_whole_pod_are_read() -> None:
    assert decode(V3).pods == {"pod-a": "8-10"}


def test_field_names_match_in_any_case_as_in_go() -> None:
    assert decode(V2.replace("defaultCpuSet", "defaultCPUSet")).default_cpus == "0,3-7"


@pytest.mark.parametrize("checksum", ["", ',"checksum":0'])
def test_a_file_without_a_checksum_is_taken(checksum: str) -> None:
    checkpoint = decode(f"{{{CONTENT}{checksum}}}")
    assert checkpoint.entries == ENTRIES
    assert checkpoint.stamp.unchecked


def test_a_changed_file_is_corrupt_in_the_words_of_the_kubelet() -> None:
    with pytest.raises(CorruptCheckpointError) as caught:
        decode(V2.replace('"a":"2"', '"a":"3"'), "somewhere")
    assert caught.value.problem == "checkpoint is corrupted"
    assert caught.value.stamp.stored == 2872188857
    assert caught.value.source == "somewhere"


def test_only_the_inner_checksum_of_the_newest_layout_counts() -> None:
    with pytest.raises(CorruptCheckpointError):
        decode(V4.replace("282073658", "282073659"))


@pytest.mark.parametrize(
    ("default", "entries", "words"),
    [
        ("1.3", {}, 'could not parse default cpu set "1.3": strconv.Atoi: parsing "1.3": invalid syntax'),
        (
            "0",
            {"u": {"c": "3-2"}},
            'could not parse cpuset "3-2" for container "c" in pod "u": invalid range "3-2" (3 > 2)',
        ),
    ],
)
def test_a_bad_cpu_list_is_refused_in_the_words_of_the_kubelet(
    default: str, entries: dict[str, dict[str, str]], words: str
) -> None:
    with pytest.raises(InputError) as caught:
        decode(encode("static", default, entries))
    assert caught.value.problem == words


@pytest.mark.parametrize(
    "text",
    [
        '{"policyName":1}',
        '{"entries":[]}',
        '{"entries":null}',
        '{"entries":{"u":{"c":1}}}',
        '{"entries":{"u":"0","v":{"c":"1"}}}',
        '{"checksum":-1}',
        '{"checksum":"7"}',
        '{"podEntries":{"u":{"cpuSet":"x"}},"checksum":1}',
        '{"data":"[]","dataChecksum":1}',
        '{"data":"","dataChecksum":1}',
    ],
)
def test_a_file_of_the_wrong_shape_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError, match="not a cpu_manager_state"):
        decode(text)


def test_the_restart_errors_are_those_of_the_kubelet() -> None:
    cause = policy_changed("CPU", "static", "none")
    assert restore_error("CPU", cause, "/var/lib/kubelet/cpu_manager_state") == (
        'could not restore state from checkpoint: configured policy "static" differs from state checkpoint policy "none",'
        ' please drain this node and delete the CPU manager checkpoint file "/var/lib/kubelet/cpu_manager_state"'
        " before restarting Kubelet"
    )


def test_a_checkpoint_is_a_value() -> None:
    assert decode(V2) == decode(V2.encode())
    assert isinstance(decode(V2), CpuCheckpoint)
    assert decode(V2).stamp.stored == 2872188857
