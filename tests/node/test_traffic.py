"""Counting what pods say to each other: records of the kernel as bytes, and connections of a node as a test has them."""

from __future__ import annotations

import errno
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaware.node.traffic import collector as collecting
from numaware.node.traffic import netlink, sock_diag
from numaware.node.traffic.collector import Collector
from numaware.node.traffic.sock_diag import Connection
from numaware.node.traffic.source import PodNetwork

A, B, HOST = (bytes((10, 0, 0, last)) for last in (1, 2, 9))
LOOPBACK = bytes((127, 0, 0, 1))
PODS = [PodNetwork("a", 1, "/a"), PodNetwork("b", 2, "/b")]


class FakeKernel:
    """The connections of every namespace, by path, as the test says; called where netlink sockets would be opened."""

    def __init__(self) -> None:
        self.open: dict[str, list[Connection]] = {}
        self.ended: dict[str, list[Connection]] = {}
        self.broken: set[str] = set()
        self.opened: list[str] = []

    def __call__(self, path: str, _: int) -> FakeDiagnosis:
        if path in self.broken:
            raise OSError(errno.EACCES, "permission denied")
        self.opened.append(path)
        return FakeDiagnosis(self, path)


class FakeDiagnosis:
    """What is asked of one namespace."""

    def __init__(self, kernel: FakeKernel, path: str) -> None:
        self._kernel = kernel
        self._path = path

    def open_connections(self) -> list[Connection]:
        return self._kernel.open.get(self._path, [])

    def ended_connections(self) -> tuple[list[Connection], bool]:
        return self._kernel.ended.pop(self._path, []), False

    def close(self) -> None:
        self._kernel.opened.remove(self._path)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> FakeKernel:
    made = FakeKernel()
    monkeypatch.setattr(collecting, "SocketDiagnosis", made)
    return made


def ends(carried: int, near: bytes = A, far: bytes = B, port: int = 5000) -> tuple[Connection, Connection]:
    """Both ends of a connection from `near` to a server at `far`."""
    one, other = (near, 40_000), (far, port)
    return Connection(1, one, other, carried, 0), Connection(2, other, one, carried, 0)


def test_a_connection_that_both_ends_tell_is_counted_once(kernel: FakeKernel) -> None:
    collector = Collector()
    assert collector.collect(PODS).bytes == {}
    near, far = ends(1000)
    kernel.open = {"/a": [near], "/b": [far._replace(bytes=999)]}
    assert collector.collect(PODS).bytes == {("a", "b"): 1000}
    near, far = ends(1700)
    kernel.open = {"/a": [near], "/b": [far]}
    assert collector.collect(PODS).bytes == {("a", "b"): 700}


def test_what_was_said_before_the_first_look_is_nobodys(kernel: FakeKernel) -> None:
    near, far = ends(10**9)
    kernel.open = {"/a": [near], "/b": [far]}
    collector = Collector()
    assert collector.collect(PODS).bytes == {("a", "b"): 0}


def test_a_connection_that_came_and_went_is_counted(kernel: FakeKernel) -> None:
    collector = Collector()
    collector.collect(PODS)
    near, far = ends(500)
    kernel.ended = {"/a": [near], "/b": [far]}
    assert collector.collect(PODS).bytes == {("a", "b"): 500}
    # The same addresses and ports again are another connection.
    kernel.ended = {"/a": [near], "/b": [far]}
    assert collector.collect(PODS).bytes == {("a", "b"): 500}


def test_a_service_is_counted_by_what_the_server_sees(kernel: FakeKernel) -> None:
    collector = Collector()
    collector.collect(PODS)
    _, far = ends(800)
    to_the_service, _ = ends(800, far=bytes((10, 96, 0, 1)))
    kernel.open = {"/a": [to_the_service], "/b": [far]}
    assert collector.collect(PODS).bytes == {("a", "b"): 800}


def test_loopback_is_somebody_else_in_every_namespace(kernel: FakeKernel) -> None:
    collector = Collector()
    collector.collect(PODS)
    near, far = ends(800, LOOPBACK, LOOPBACK)
    kernel.open = {"/a": [near], "/b": [far]}
    assert collector.collect(PODS).bytes == {}


def test_pods_on_the_hosts_network_are_told_apart_by_their_groups(kernel: FakeKernel) -> None:
    pods = [
        PodNetwork("x", 7, "/host", shared=True, cgroups=(71,)),
        PodNetwork("y", 7, "/host", shared=True, cgroups=(72, 73)),
    ]
    collector = Collector()
    collector.collect(pods)
    near, far = ends(800, LOOPBACK, LOOPBACK)
    stranger, _ = ends(900, HOST, HOST, port=22)
    kernel.open = {"/host": [near._replace(cgroup=71), far._replace(cgroup=73), stranger]}
    assert collector.collect(pods).bytes == {("x", "y"): 800}


def test_a_namespace_is_known_by_its_number_whatever_path_leads_to_it(kernel: FakeKernel) -> None:
    collector = Collector()
    collector.collect(PODS)
    moved = [PodNetwork("a", 1, "/elsewhere"), PODS[1]]
    collector.collect(moved)
    assert sorted(kernel.opened) == ["/a", "/b"]
    collector.collect([])
    assert kernel.opened == []


def test_who_cannot_be_asked_is_named_and_the_others_are_counted(kernel: FakeKernel) -> None:
    kernel.broken = {"/b"}
    collector = Collector()
    collector.collect(PODS)
    near, _ = ends(800)
    kernel.open = {"/a": [near]}
    counted = collector.collect(PODS)
    assert "permission denied" in counted.unread["network namespace 2"]
    assert counted.connections == 1
    collector.close()
    assert kernel.opened == []


def test_a_path_that_leads_elsewhere_by_now_is_not_asked() -> None:
    with pytest.raises(OSError, match="Stale"):
        sock_diag.SocketDiagnosis("/proc/self/ns/net", 1)


def record(family: int, local: bytes, remote: bytes, acknowledged: int, received: int) -> bytes:
    """One record as the kernel writes it, with the counters and the number of the control group."""
    head = struct.pack("=BBxx2s2s16s16sLQ20x", family, 1, b"\x13\x88", b"\x9c\x40", local, remote, 0, 77)
    info = bytes(120) + struct.pack("=QQ", acknowledged, received)
    attributes = struct.pack("=HH", len(info) + 4, 2) + info + struct.pack("=HHQ", 12, 21, 4711)
    body = head + attributes
    return struct.pack("=LHHLL", len(body) + 16, 20, 0, 1, 0) + body


def test_a_record_of_the_kernel_is_read() -> None:
    ((kind, _, body),) = netlink.messages(record(socket.AF_INET, A + bytes(12), B + bytes(12), 300, 40))
    assert kind == 20
    assert sock_diag.connection_of(body) == Connection(77, (A, 5000), (B, 40_000), 340, 4711)


def test_an_ipv4_address_within_ipv6_is_the_ipv4_address() -> None:
    mapped = bytes(10) + b"\xff\xff"
    ((_, _, body),) = netlink.messages(record(socket.AF_INET6, mapped + A, mapped + B, 1, 1))
    connection = sock_diag.connection_of(body)
    assert connection is not None
    assert (connection.local[0], connection.remote[0]) == (A, B)


@given(st.binary(max_size=300), st.integers(0, 250))
def test_no_bytes_of_a_kernel_can_break_the_reader(noise: bytes, cut: int) -> None:
    whole = record(socket.AF_INET, A + bytes(12), B + bytes(12), 1, 1)
    for data in (noise, whole[:cut] + noise, whole[: cut - len(whole)]):
        for _, _, body in netlink.messages(data):
            connection = sock_diag.connection_of(body)
            assert connection is None or connection.bytes >= 0
