"""Which release follows which rule; the versions are those of the tags whose sources changed."""

from __future__ import annotations

import pytest

from numaware.twin.rules import rules_for


@pytest.mark.parametrize(
    ("rule", "last_without", "first_with"),
    [
        ("memory_manager", "v1.20.15", "v1.21.0"),
        ("keeps_pending", "v1.22.0", "v1.22.1"),
        ("policy_options", "v1.21.14", "v1.22.0"),
        ("no_topology_apart", "v1.22.17", "v1.23.0"),
        ("numa_allocator", "v1.22.17", "v1.23.0"),
        ("equal_masks", "v1.23.17", "v1.24.0"),
        ("topology_options", "v1.25.16", "v1.26.0"),
        ("smt_free", "v1.26.15", "v1.27.0"),
        ("device_health", "v1.24.17", "v1.28.0"),
        ("device_health", "v1.25.9", "v1.25.10"),
        ("device_health", "v1.26.4", "v1.26.5"),
        ("device_health", "v1.27.1", "v1.27.2-eks.1"),
        ("sidecars", "v1.28.15", "v1.29.0"),
        ("memory_groups", "v1.31.14", "v1.32.0"),
        ("smt_cause", "v1.31.14", "v1.32.0"),
        ("odd_uncore", "v1.33.13", "v1.34.0"),
    ],
)
def test_a_rule_begins_with_the_release_that_brought_it(
    rule: str, last_without: str, first_with: str
) -> None:
    assert not getattr(rules_for(last_without), rule)
    assert getattr(rules_for(first_with), rule)


def test_pods_that_were_refused_are_let_go_at_once_since_1_32() -> None:
    assert rules_for("v1.31.14").keeps_pending
    assert not rules_for("v1.32.0").keeps_pending


def test_a_version_without_a_patch_is_the_last_of_its_kind() -> None:
    assert rules_for("1.25") == rules_for("v1.25.16")


@pytest.mark.parametrize("version", ["", "v2.0.0", "1", "v1.17.3", "v1.x", "1.2700"])
def test_what_is_no_kubelet_version_is_refused(version: str) -> None:
    with pytest.raises(ValueError, match="is not a kubelet version"):
        rules_for(version)
