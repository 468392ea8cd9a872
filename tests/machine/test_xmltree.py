from __future__ import annotations

import pytest

from numaware.errors import InputError
from numaware.machine import xmltree
from numaware.machine.xmltree import MAX_DEPTH, read_xml


def test_the_tree_is_given_with_attributes_and_text() -> None:
    root = read_xml(b'<?xml version="1.0"?><!DOCTYPE a SYSTEM "a.dtd"><a b="c"><d>e</d></a>', "a", "f")
    assert (root.get("b"), root.findtext("d")) == ("c", "e")


def test_depth_is_bounded() -> None:
    assert read_xml(b"<a>" * MAX_DEPTH + b"</a>" * MAX_DEPTH, "a", "f").tag == "a"
    with pytest.raises(InputError, match="nested"):
        read_xml(b"<a>" * (MAX_DEPTH + 1), "a", "f")


def test_the_number_of_elements_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xmltree, "MAX_ELEMENTS", 3)
    assert len(read_xml(b"<a><b/><b/></a>", "a", "f")) == 2
    with pytest.raises(InputError, match="more than 3 elements"):
        read_xml(b"<a><b/><b/><b/></a>", "a", "f")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "empty"),
        (b"<a", "not XML"),
        (b"<b/>", "root element is <b>"),
        (b'<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', "entities"),
        (b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "entities"),
        (b'<?xml version="1.0" encoding="klingon"?><a/>', "cannot be read"),
    ],
)
def test_bad_xml_is_refused_in_words(data: bytes, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_xml(data, "a", "f")
