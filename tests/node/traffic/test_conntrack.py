"""Flows of connection tracking, as bytes of the kernel; what the real table says is tried in tests/e2e/test_conntrack.py."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaware.node.traffic import conntrack
from numaware.node.traffic.conntrack import Conntrack, Flow, flow_of
from numaware.node.traffic.source import PodNetwork

CLIENT, SERVER, SERVICE = (bytes((10, 0, 0, last)) for last in (1, 2, 9))
NESTED = 0x8000


def attribute(kind: int, content: bytes) -> bytes:
    size = len(content) + 4
    return struct.pack("=HH", size, kind) + content + bytes(-size % 4)


def direction(source: bytes, target: bytes) -> bytes:
    kinds = (1, 2) if len(source) == 4 else (3, 4)
    addresses = attribute(kinds[0], source) + attribute(kinds[1], target)
    ports = attribute(1, b"\x06") + attribute(2, b"\x9c\x40") + attribute(3, b"\x13\x88")
    return attribute(NESTED | 1, addresses) + attribute(NESTED | 2, ports)


def counters(size: int) -> bytes:
    return attribute(1, struct.pack(">Q", 3)) + attribute(2, struct.pack(">Q", size))


def flow(
    client: bytes = CLIENT, asked: bytes = SERVICE, server: bytes = SERVER, sizes: tuple[int, ...] = ()
) -> bytes:
    body = struct.pack("=BBH", 2, 0, 0)
    body += attribute(NESTED | 1, direction(client, asked)) + attribute(NESTED | 2, direction(server, client))
    for kind, size in zip((9, 10), sizes, strict=False):
        body += attribute(NESTED | kind, counters(size))
    return body + attribute(12, struct.pack(">L", 77))


@pytest.mark.parametrize("wide", [False, True])
def test_who_answers_is_behind_the_services_address_and_both_ways_count(wide: bool) -> None:
    client, asked, server = (bytes(12) + end if wide else end for end in (CLIENT, SERVICE, SERVER))
    found = flow_of(memoryview(flow(client, asked, server, sizes=(300, 40))))
    assert found == Flow(77, client, server, 340)


def test_a_flow_without_counters_has_none() -> None:
    found = flow_of(memoryview(flow()))
    assert found is not None
    assert found.bytes is None


@given(st.binary(max_size=300), st.integers(0, 250))
def test_no_bytes_of_a_kernel_can_break_the_reader(noise: bytes, cut: int) -> None:
    whole = flow(sizes=(1, 1))
    for data in (noise, whole[:cut] + noise, whole[: cut - len(whole)]):
        found = flow_of(memoryview(data))
        assert found is None or found.bytes is None or found.bytes >= 0


def test_a_node_without_a_first_process_is_named(tmp_path: Path) -> None:
    source = Conntrack(str(tmp_path))
    (place,) = source.collect([]).unread
    assert str(tmp_path) in place
    source.close()


def test_addresses_are_those_that_only_the_pod_has(tmp_path: Path) -> None:
    (tmp_path / "fib_trie").write_text(
        "Local:\n  +-- 0.0.0.0/0 2 0 2\n     |-- 10.0.0.0\n        /24 link UNICAST\n     |-- 10.0.0.1\n"
        "        /32 host LOCAL\n     |-- 127.0.0.1\n        /32 host LOCAL\n"
    )
    (tmp_path / "if_inet6").write_text(
        "00000000000000000000000000000001 01 80 10 80       lo\n"
        "fe800000000000000000000000000001 02 40 20 80     eth0\n"
        "fd000000000000000000000000000005 02 40 00 80     eth0\n"
    )
    assert conntrack._addresses(tmp_path) == {CLIENT, bytes.fromhex("fd000000000000000000000000000005")}
    assert conntrack._addresses(tmp_path / "gone") == frozenset()


def test_pods_that_share_a_network_are_nobody_by_its_addresses(tmp_path: Path) -> None:
    folder = tmp_path / "10/net"
    folder.mkdir(parents=True)
    (folder / "fib_trie").write_text("|-- 10.0.0.1\n   /32 host LOCAL\n")
    (folder / "if_inet6").write_text("")
    path = str(tmp_path / "10/ns/net")
    source = Conntrack(str(tmp_path))
    assert source._owners([PodNetwork("a", 1, path)]) == {CLIENT: "a"}
    assert source._owners([PodNetwork("a", 1, path, shared=True)]) == {}
