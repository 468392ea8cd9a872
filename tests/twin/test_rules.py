"""Which release follows which rule; the versions are those of the tags whose sources changed."""

from __future__ import annotations

import pytest

from numaware.twin.rules import NEWEST_MINOR, RULES, Rules, modelled_as, rules_for


@pytest.mark.parametrize(
    ("rule", "last_without", "first_with"),
    [
        ("memory_manager", "v1.20.15", "v1.21.0"),
        ("keeps_pending", "v1.22.0", "v1.22.1"),
        ("policy_options", "v1.21.14", "v1.22.0"),
        ("sorted_cpus", "v1.21.14", "v1.22.0"),
        ("memory_reuse", "v1.21.14", "v1.22.0"),
        ("narrowest_before_groups", "v1.22.17", "v1.23.0"),
        ("reuse_per_pod", "v1.22.17", "v1.23.0"),
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
        ("memory_best_effort", "v1.31.14", "v1.32.0"),
        ("odd_uncore", "v1.33.13", "v1.34.0"),
        ("device_nodes", "v1.35.8", "v1.36.0"),
        ("files_newest_first", "v1.35.8", "v1.36.0"),
        ("held_first", "v1.36.4", "v1.37.0-rc.1"),
        ("even_within_reach", "v1.36.4", "v1.37.0"),
        ("memory_asked_for", "v1.36.4", "v1.37.0"),
        ("resize_apart", "v1.36.4", "v1.37.0"),
        ("wrapped_files", "v1.36.4", "v1.37.0"),
    ],
)
def test_a_rule_begins_with_the_release_that_brought_it(
    rule: str, last_without: str, first_with: str
) -> None:
    assert not getattr(rules_for(last_without), rule)
    assert getattr(rules_for(first_with), rule)


@pytest.mark.parametrize(
    ("rule", "last_with", "first_without"),
    [
        ("keeps_pending", "v1.31.14", "v1.32.0"),
        ("none_is_checked", "v1.27.16", "v1.28.0"),
        ("memory_extends_upwards", "v1.21.14", "v1.22.0"),
    ],
)
def test_a_rule_ends_with_the_release_that_dropped_it(rule: str, last_with: str, first_without: str) -> None:
    assert getattr(rules_for(last_with), rule)
    assert not getattr(rules_for(first_without), rule)


def test_every_field_is_a_rule_of_the_table_and_every_rule_a_field() -> None:
    assert Rules.__struct_fields__ == ("minor", *RULES)


def test_every_rule_makes_a_difference_between_two_known_releases() -> None:
    for name in RULES:
        assert {getattr(rules_for(f"v1.{minor}"), name) for minor in range(20, NEWEST_MINOR + 1)} == {
            True,
            False,
        }


@pytest.mark.parametrize(
    ("version", "stands_in"),
    [("v1.37.9", ""), ("v1.20.1", ""), ("v1.38.0", "v1.37"), ("v1.40.0-alpha.1", "v1.37"), ("unknown", "")],
)
def test_a_release_nobody_recorded_is_modelled_as_the_newest_that_was(version: str, stands_in: str) -> None:
    assert modelled_as(version) == stands_in
    if stands_in:
        same = rules_for(stands_in)
        assert all(getattr(rules_for(version), name) == getattr(same, name) for name in RULES)


def test_a_version_without_a_patch_is_the_last_of_its_kind() -> None:
    assert rules_for("1.25") == rules_for("v1.25.16")


@pytest.mark.parametrize("version", ["", "v2.0.0", "1", "v1.17.3", "v1.x", "1.2700"])
def test_what_is_no_kubelet_version_is_refused(version: str) -> None:
    with pytest.raises(ValueError, match="is not a kubelet version"):
        rules_for(version)
