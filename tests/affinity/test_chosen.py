"""Who may be moved: namespaces, a Whitelist, and what pods say of themselves."""

from __future__ import annotations

import pytest

from numaware.affinity.chosen import KEY, Chosen, Said, word_of
from numaware.affinity.whitelist import Whitelist

LISTED = Whitelist.of({"shop": ["web-0", "db-0\n  db-1"], "kube-system": ["dns"]})


@pytest.mark.parametrize(
    ("chosen", "namespace", "word", "barred"),
    [
        (Chosen(), "shop", "", False),
        (Chosen(), "kube-system", "", True),
        (Chosen(), "kube-system", "on", False),
        (Chosen(), "shop", "off", True),
        (Chosen(("shop",)), "other", "", True),
        (Chosen(("shop",)), "shop", "", False),
        (Chosen(), "", "", True),
        (Chosen(), "shop", "nonsense", False),
    ],
)
def test_people_say_who_may_be_moved(chosen: Chosen, namespace: str, word: str, barred: bool) -> None:
    assert chosen.bars(Said({"u": word}), "u", namespace, "web-0") == barred


@pytest.mark.parametrize(
    ("namespace", "name", "word", "barred"),
    [
        ("shop", "web-0", "", False),
        # YAML has made one text of two names.
        ("shop", "db-1", "", False),
        ("shop", "web-1", "", True),
        ("bank", "web-0", "", True),
        # Whom it names needs no other permission; who says no is left alone; nobody gets past it.
        ("kube-system", "dns", "", False),
        ("shop", "web-0", "off", True),
        ("shop", "web-1", "on", True),
    ],
)
def test_a_whitelist_says_it_for_all(namespace: str, name: str, word: str, barred: bool) -> None:
    assert Chosen().bars(Said({"u": word}, LISTED), "u", namespace, name) == barred


def test_a_whitelist_without_effect_bars_nobody() -> None:
    said = Said(whitelist=Whitelist(effective=False, pods=LISTED.pods))
    assert not Chosen().bars(said, "u", "shop", "web-1")
    assert Chosen().bars(said, "u", "kube-system", "dns")


@pytest.mark.parametrize(
    ("label", "annotation", "word"),
    [
        ("", "", ""),
        ("on", "", "on"),
        ("", "on", "on"),
        ("on", "off", "off"),
        ("off", "on", "off"),
        ("x", "", ""),
    ],
)
def test_a_pod_says_it_with_a_label_or_an_annotation(label: str, annotation: str, word: str) -> None:
    assert word_of({KEY: label} if label else {}, {KEY: annotation} if annotation else {}) == word
