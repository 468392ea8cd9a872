"""A person's file after an edit: all else keeps every byte."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from node.kubelet_switch.conftest import CONFIG
from numaware.errors import InputError
from numaware.node.kubelet_switch.edit import difference, edited, wanted_in, wanted_of
from numaware.twin import kubelet_config


def edit(text: str, *sets: str, unset: tuple[str, ...] = ()) -> str:
    return edited(text.encode(), wanted_of(sets, unset), "configuration", "config.yaml").decode()


def test_only_the_lines_of_the_field_change_and_its_comment_stays() -> None:
    after = edit(CONFIG, "cpuManagerPolicy=static")
    assert after == CONFIG.replace("cpuManagerPolicy: none  # for now", "cpuManagerPolicy: static # for now")


def test_what_is_new_goes_to_the_end() -> None:
    after = edit(CONFIG, "topologyManagerPolicy=restricted", "cpuManagerPolicyOptions.full-pcpus-only=true")
    assert after.startswith(CONFIG)
    assert after.removeprefix(CONFIG) == (
        'topologyManagerPolicy: restricted\ncpuManagerPolicyOptions:\n  full-pcpus-only: "true"\n'
    )


def test_one_member_of_a_map_is_set_and_taken_out() -> None:
    text = "evictionHard:\n  # low\n  memory.available: 100Mi\n  nodefs.available: 10%\nmaxPods: 7\n"
    assert edit(text, "evictionHard.memory.available=200Mi") == text.replace("100Mi", "200Mi")
    assert edit(text, unset=("evictionHard.nodefs.available",)) == text.replace(
        "  nodefs.available: 10%\n", ""
    )
    assert edit(text, unset=("evictionHard",)) == "maxPods: 7\n"


def test_a_file_without_an_end_of_line_gets_one_where_something_follows() -> None:
    assert edit("cpuManagerPolicy: none", "topologyManagerPolicy=restricted") == (
        "cpuManagerPolicy: none\ntopologyManagerPolicy: restricted\n"
    )


def test_json_keeps_its_order_and_indentation() -> None:
    text = json.dumps({"kind": "KubeletConfiguration", "maxPods": 7, "cpuManagerPolicy": "none"}, indent=1)
    assert edit(text, "cpuManagerPolicy=static") == text.replace('"none"', '"static"')


def test_a_drop_in_that_is_not_there_yet_is_a_whole_configuration() -> None:
    made = edited(None, {"topologyManagerPolicy": "restricted"}, "drop-in", "99-numaware.conf")
    assert kubelet_config.read(made, "99-numaware.conf").config.topology_policy == "restricted"
    assert b"apiVersion: kubelet.config.k8s.io/v1beta1" in made


def test_flags_of_k3s_are_a_list_that_adds_to_others() -> None:
    wanted = wanted_of(["topologyManagerPolicy=restricted", "reservedMemory=0:memory=1Gi;1:memory=2Gi"])
    made = edited(None, wanted, "kubelet-arg", "99-numaware.yaml")
    again = edited(made, wanted_of(["cpuManagerPolicyOptions.full-pcpus-only=true"]), "kubelet-arg", "f")
    assert yaml.safe_load(again) == {
        "kubelet-arg+": [
            "topology-manager-policy=restricted",
            "reserved-memory=0:memory=1Gi;1:memory=2Gi",
            "cpu-manager-policy-options=full-pcpus-only=true",
        ]
    }


def test_numbers_and_booleans_are_text_where_the_kubelet_wants_text() -> None:
    after = edit(
        "kind: KubeletConfiguration\n",
        "reservedSystemCPUs=0",
        "featureGates.CPUManagerPolicyAlphaOptions=true",
    )
    assert yaml.safe_load(after) == {
        "kind": "KubeletConfiguration",
        "reservedSystemCPUs": "0",
        "featureGates": {"CPUManagerPolicyAlphaOptions": True},
    }


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (["topologyManagerPolicy"], "is not FIELD=VALUE"),
        (["topologymanagerpolicy=x"], "did you mean topologyManagerPolicy?"),
        (["cpuManagerPolicy.x=y"], "has no members"),
        (["featureGates.X=perhaps"], "perhaps"),
        (["reservedMemory=0"], "incorrect format"),
        (["maxPods=7"], "is no setting of the resource managers"),
    ],
)
def test_a_wish_that_is_none_is_one_clear_error(sets: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said.replace("?", r"\?")):
        wanted_of(sets)


@pytest.mark.parametrize("data", [b"- a\n", b"\xff\xfe", b"a: 1\n---\nb: 2\n", b"{a: 1}\n"])
def test_a_file_that_cannot_be_edited_is_left_alone(data: bytes) -> None:
    with pytest.raises(InputError):
        edited(data, {"cpuManagerPolicy": "static"}, "configuration", "config.yaml")


def test_a_field_that_refers_to_another_is_left_alone() -> None:
    text = "x: &a\n  memory: 1Gi\nsystemReserved:\n  <<: *a\n"
    with pytest.raises(InputError, match="refers to other parts"):
        edit(text, "systemReserved.cpu=1")


def test_fields_of_a_file_are_wanted() -> None:
    assert wanted_in(b"topologyManagerPolicy: restricted\nmaxPods: 7\n", "f") == {
        "topologyManagerPolicy": "restricted"
    }
    with pytest.raises(InputError, match="sets nothing"):
        wanted_in(b"maxPods: 7\n", "f")


def test_a_difference_is_a_unified_diff() -> None:
    assert difference(b"a\n", b"b\n", "/f") == "--- /f\n+++ /f\n@@ -1 +1 @@\n-a\n+b\n"
    assert difference(None, b"b", "/f").startswith("--- /dev/null\n+++ /f\n")


_LINES = st.sampled_from(
    [
        "# a comment",
        "",
        "maxPods: 7",
        "clusterDNS:\n- 10.0.0.1",
        "logging:\n    format: text\n    # here\n    options:\n        json: {}",
        "cpuManagerPolicy: 'none'   # quoted",
        "systemReserved:\n  cpu: '1'\n  # why\n  memory: 1Gi",
        "clusterDomain: |\n  two\n  lines\n",
    ]
)


@given(st.lists(_LINES, unique=True), st.sampled_from(["static", "none"]))
def test_whatever_stands_around_a_field_stays_and_the_field_says_what_was_asked(
    lines: list[str], policy: str
) -> None:
    text = "\n".join(["kind: KubeletConfiguration", *lines]) + "\n"
    after = edit(text, f"cpuManagerPolicy={policy}", "systemReserved.cpu=2")
    before = yaml.safe_load(text)
    assert yaml.safe_load(after) == {
        **before,
        "cpuManagerPolicy": policy,
        "systemReserved": {**before.get("systemReserved", {}), "cpu": "2"},
    }
    kept = [line for part in lines for line in part.split("\n") if "cpu" not in line]
    assert [line for line in after.split("\n") if line in kept] == [
        line for line in text.split("\n") if line in kept
    ]
