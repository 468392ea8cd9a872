from __future__ import annotations

import pytest

from numaware.kube.decoding import DecodeError, Metadata
from numaware.kube.priority import PriorityClass, decode


def test_a_priority_class_says_what_its_name_is_worth() -> None:
    raw = (
        b'{"metadata": {"name": "gold", "resourceVersion": "4"}, "value": 1000, "preemptionPolicy": "Never"}'
    )
    assert decode(raw) == PriorityClass(Metadata("gold", resource_version="4"), 1000)


def test_a_class_without_a_number_is_refused() -> None:
    with pytest.raises(DecodeError, match=r"priority class gold: .*value"):
        decode(b'{"metadata": {"name": "gold"}}')
