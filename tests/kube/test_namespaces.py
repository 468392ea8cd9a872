from __future__ import annotations

import pytest

from numaware.kube.decoding import DecodeError
from numaware.kube.namespaces import Namespace, decode


def test_a_namespace_has_labels() -> None:
    raw = (
        b'{"metadata": {"name": "shop", "labels": {"team": "red", "a": "b"}}, "status": {"phase": "Active"}}'
    )
    assert decode(raw) == Namespace("shop", (("a", "b"), ("team", "red")))
    assert decode(b'{"metadata": {"name": "bare"}}') == Namespace("bare", ())


def test_labels_that_are_no_labels_are_refused() -> None:
    with pytest.raises(DecodeError, match="namespace shop"):
        decode(b'{"metadata": {"name": "shop", "labels": {"team": 1}}}')
