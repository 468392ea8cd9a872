"""The pod fingerprint: a short name for the set of pods that a topology report has counted.

A report and a scheduler that name the same set speak of the same moment. The name is `pfp0v001` and a 64-bit hash
(XXH64) over the hashes of the pods' namespaces and names, in ascending order. It knows pods by name only, so a pod made
anew under its old name cannot be told from the one before.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import iter_unpack
from typing import Literal

# Which pods a report counts: all on the node, or those that own CPUs, memory or devices of a NUMA node.
Method = Literal["all", "with-exclusive-resources"]

_PREFIX = "pfp0v001"
_LOW = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """The fingerprint of pods given as (namespace, name)."""
    hashes = sorted(_pod(namespace, name) for namespace, name in pods)
    return f"{_PREFIX}{xxh64(b''.join(number.to_bytes(8, 'little') for number in hashes)):016x}"


@lru_cache(maxsize=16_384)
def _pod(namespace: str, name: str) -> int:
    return xxh64(name.encode(), xxh64(namespace.encode()))


def xxh64(data: bytes, seed: int = 0) -> int:
    """XXH64 as published: four lanes over blocks of 32 bytes, then the rest in words, and a final stir."""
    length = len(data)
    body = length - length % 32
    if length < 32:
        acc = seed + _P5
    else:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        for block in iter_unpack("<4Q", data[:body]):
            lanes = [_round(lane, word) for lane, word in zip(lanes, block, strict=True)]
        one, two, three, four = lanes
        acc = _left(one, 1) + _left(two, 7) + _left(three, 12) + _left(four, 18)
        for lane in lanes:
            acc = (acc ^ _round(0, lane)) * _P1 + _P4 & _LOW
    acc = acc + length & _LOW
    words = length - length % 8
    for (word,) in iter_unpack("<Q", data[body:words]):
        acc = _left(acc ^ _round(0, word), 27) * _P1 + _P4 & _LOW
    rest = data[words:]
    if len(rest) >= 4:
        acc = _left(acc ^ int.from_bytes(rest[:4], "little") * _P1 & _LOW, 23) * _P2 + _P3 & _LOW
        rest = rest[4:]
    for byte in rest:
        acc = _left(acc ^ byte * _P5 & _LOW, 11) * _P1 & _LOW
    acc = (acc ^ acc >> 33) * _P2 & _LOW
    acc = (acc ^ acc >> 29) * _P3 & _LOW
    return acc ^ acc >> 32


def _round(acc: int, word: int) -> int:
    return _left(acc + word * _P2 & _LOW, 31) * _P1 & _LOW


def _left(number: int, bits: int) -> int:
    number &= _LOW
    return (number << bits | number >> 64 - bits) & _LOW
