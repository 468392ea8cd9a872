from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaware.kube.topology.fingerprint import fingerprint, xxh64


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], "pfp0v001ef46db3751d8e999"),
        ([("default", "a")], "pfp0v00173ac1f6debaedf3d"),
        ([("default", "pod-1"), ("kube-system", "dns")], "pfp0v001b73938141ca43759"),
    ],
)
def test_the_fingerprint_is_the_one_that_others_publish(pods: list[tuple[str, str]], expected: str) -> None:
    assert fingerprint(pods) == expected


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"", 0, 0xEF46DB3751D8E999),
        (b"a", 0, 0xD24EC4F1A98C6E5B),
        (b"abc", 0, 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0, 0xFBCEA83C8A378BF1),
    ],
)
def test_xxh64_gives_its_published_values(data: bytes, seed: int, expected: int) -> None:
    assert xxh64(data, seed) == expected


@given(st.lists(st.tuples(st.sampled_from("ab"), st.text("abc-", max_size=70)), unique=True))
def test_the_order_of_pods_does_not_matter(pods: list[tuple[str, str]]) -> None:
    assert fingerprint(reversed(pods)) == fingerprint(pods)
