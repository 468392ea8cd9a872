"""The numa-aware plugin, put into a person's configuration of Volcano and taken out again: that one entry, nothing else."""

from __future__ import annotations

import pytest

from numaware.errors import InputError
from numaware.serve.console.openfuyao.volcano_conf import status_of, switched

# As Volcano's chart installs it, with what people leave in such files.
CONF = """\
# our cluster; ask ops before touching this
actions: "enqueue, allocate, backfill"   # no preempt
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name:   'nodeorder'
    arguments: {leastrequested.weight: 1}
  - name: binpack # packs
    # arguments:
    #   binpack.weight: 10

# name: numa-aware is not on yet
configurations:
- name: enqueue
  arguments:
    overcommit-factor: 1.2
"""


def test_it_goes_below_the_last_plugin_and_nothing_else_changes() -> None:
    assert switched(CONF, "open") == CONF.replace(
        "    #   binpack.weight: 10\n", "    #   binpack.weight: 10\n  - name: numa-aware\n"
    )


def test_taking_it_out_gives_back_every_byte() -> None:
    assert switched(switched(CONF, "open"), "close") == CONF


@pytest.mark.parametrize("status", ["open", "close"])
def test_the_same_again_changes_nothing(status: str) -> None:
    once = switched(CONF, "open" if status == "open" else "close")
    assert switched(once, "open" if status == "open" else "close") == once


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # With its arguments and what is noted inside of it, wherever it stands.
        (
            (
                "tiers:\n- plugins:\n  - name: numa-aware # ours\n    arguments:\n      # heavy\n      weight: 10\n"
                "      # or 5\n  # above gang\n  - name: gang\n"
            ),
            "tiers:\n- plugins:\n  # above gang\n  - name: gang\n",
        ),
        (
            (
                'tiers:\n  - plugins:\n      - name: gang\n      - arguments:\n          weight: 10\n        name: "numa-aware"\n'
                "  - plugins:\n      - name: drf\n"
            ),
            "tiers:\n  - plugins:\n      - name: gang\n  - plugins:\n      - name: drf\n",
        ),
        # In two places at once.
        (
            "tiers:\n- plugins:\n  - name: numa-aware\n  - name: gang\n- plugins:\n  - name: drf\n  - name: numa-aware\n",
            "tiers:\n- plugins:\n  - name: gang\n- plugins:\n  - name: drf\n",
        ),
        # With a text of several lines inside, and without a line break at the end of the file.
        (
            "tiers:\n- plugins:\n  - name: gang\n  - name: numa-aware\n    note: |\n      two\n      lines\n\nactions: a\n",
            "tiers:\n- plugins:\n  - name: gang\nactions: a\n",
        ),
        (
            "tiers:\n- plugins:\n  - name: gang\n  - name: numa-aware",
            "tiers:\n- plugins:\n  - name: gang",
        ),
        ("tiers:\n- plugins:\n  -\n    name: numa-aware\n", "tiers:\n- plugins:\n"),
        # In brackets.
        (
            "tiers: [{plugins: [{name: gang}, {name: numa-aware, arguments: {weight: 1}}, {name: drf}]}]\n",
            "tiers: [{plugins: [{name: gang}, {name: drf}]}]\n",
        ),
        (
            "tiers: [{plugins: [{name: numa-aware}, {name: drf}]}]\n",
            "tiers: [{plugins: [{name: drf}]}]\n",
        ),
        ("tiers: [{plugins: [{name: numa-aware}]}]\n", "tiers: [{plugins: []}]\n"),
        (
            "tiers:\n- plugins: [\n    {name: gang}, # first\n    {name: numa-aware},\n  ]\n",
            "tiers:\n- plugins: [\n    {name: gang} # first\n    ,\n  ]\n",
        ),
    ],
)
def test_it_is_taken_out_with_all_that_belongs_to_it(before: str, after: str) -> None:
    assert status_of(before) == "open"
    assert switched(before, "close") == after
    assert status_of(after) == "close"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "tiers:\r\n- plugins:\r\n  - name: gang\r\nactions: a\r\n",
            "tiers:\r\n- plugins:\r\n  - name: gang\r\n  - name: numa-aware\r\nactions: a\r\n",
        ),
        ("tiers:\n- plugins:\n  - name: gang", "tiers:\n- plugins:\n  - name: gang\n  - name: numa-aware"),
        (
            "tiers:\n- plugins:\n  - name: gang\n- plugins:\n",
            "tiers:\n- plugins:\n  - name: gang\n  - name: numa-aware\n- plugins:\n",
        ),
        (
            '{"tiers": [{"plugins": [{"name": "gang"}]}]}',
            '{"tiers": [{"plugins": [{"name": "gang"}, {"name": "numa-aware"}]}]}',
        ),
        (
            "tiers:\n- plugins:\n  - name: gang\n    note: |\n      kept\n\n\nactions: a\n",
            "tiers:\n- plugins:\n  - name: gang\n    note: |\n      kept\n\n\n  - name: numa-aware\nactions: a\n",
        ),
        (
            "tiers:\n- plugins:\n  - name: gang\n    arguments:\nactions: a\n",
            "tiers:\n- plugins:\n  - name: gang\n    arguments:\n  - name: numa-aware\nactions: a\n",
        ),
    ],
)
def test_it_is_put_in_the_way_the_file_is_written(before: str, after: str) -> None:
    assert switched(before, "open") == after
    assert switched(after, "close") == before


@pytest.mark.parametrize(
    "text",
    [
        "tiers:\n- plugins:\n  - name: gang\n  # - name: numa-aware\n",
        "tiers:\n- plugins:\n  - name: numa-aware-x\n",
        "tiers:\n- plugins:\n  - name: gang\n    note: 'name: numa-aware'\n",
        "tiers:\n- plugins:\n  - name: gang\nconfigurations:\n- name: numa-aware\n",
    ],
)
def test_words_that_only_look_like_it_do_not_switch_it_on(text: str) -> None:
    assert status_of(text) == "close"
    assert switched(switched(text, "open"), "close") == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("# nothing\n", "not a mapping"),
        ("tiers: [", "broken YAML"),
        ("tiers:\n- plugins:\n\t- name: gang\n", "broken YAML"),
        ("tiers: {}", "not a list"),
        ("tiers:\n- gang\n", "not a mapping"),
        ("tiers:\n- plugins:\n  - numa-aware\n", "not a mapping"),
        ("tiers:\n- plugins: gang\n", "not a list"),
        ("tiers: []\ntiers: []\n", "twice"),
        ("a: &a 1\nb: *a\ntiers: []\n", "aliases"),
        ("a: 1\n---\nb: 2\n", "broken YAML"),
        ("a: " + "[" * 30_000, "broken YAML"),
        ("#" * 70_000, "longer"),
    ],
)
def test_what_is_no_configuration_is_said_to_be_none(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        status_of(text)
    with pytest.raises(InputError, match=said):
        switched(text, "open")


def test_without_any_tier_there_is_nowhere_to_put_it() -> None:
    assert status_of("actions: allocate\ntiers:\n") == "close"
    with pytest.raises(InputError, match="no tier"):
        switched("actions: allocate\ntiers:\n", "open")


def test_what_cannot_be_done_without_changing_more_is_not_done() -> None:
    """A text that ends with the file would get a line break it did not have."""
    with pytest.raises(InputError, match="changing more"):
        switched("tiers:\n- plugins:\n  - name: gang\n    note: |\n      text", "open")
