"""TCP connections of one network namespace with the bytes they carried, as the kernel's sock_diag tells them.

A dump has every connection that is open; the group of destroyed sockets brings each one that has just ended, with its last
counts, so that short connections are counted exactly. Written by hand, as libraries read dumps but not that group together
with byte counters. Read by `collector.py`.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

from numaware.node.traffic.netlink import Netlink, attributes

_SOCK_DIAG = 4
_BY_FAMILY = 20
# Ended TCP connections over IPv4 and IPv6.
_DESTROY_GROUPS = (1, 3)
# Established, and those on the way to their end: their bytes are said already.
_STATES = sum(1 << state for state in (1, 4, 5, 6, 8, 9, 11))
_WITH_INFO = 1 << 1
_REQUEST = struct.Struct("=BBBxL48x")
# Family, state, ports, addresses, cookie; what follows is not needed.
_RECORD = struct.Struct("=BBxx2s2s16s16sLQ20x")
_INFO, _CGROUP = 2, 21
# In tcp_info: bytes that the other side has acknowledged, and bytes received.
_BYTES = struct.Struct("=QQ")
_BYTES_AT = 120
_NUMBER = struct.Struct("=Q")

Endpoint = tuple[bytes, int]


class Connection(NamedTuple):
    """One side of a connection. `cgroup` is the number of the control group that made it, 0 where the kernel does not say."""

    cookie: int
    local: Endpoint
    remote: Endpoint
    bytes: int
    cgroup: int


class SocketDiagnosis:
    """The connections of the namespace of this number at `path`."""

    def __init__(self, path: str, number: int) -> None:
        self._netlink = Netlink(_SOCK_DIAG, _DESTROY_GROUPS, path, number)

    def close(self) -> None:
        self._netlink.close()

    def open_connections(self) -> Iterator[Connection]:
        """All of now; OSError where the kernel refuses."""
        for family in (socket.AF_INET, socket.AF_INET6):
            request = _REQUEST.pack(family, socket.IPPROTO_TCP, _WITH_INFO, _STATES)
            for body in self._netlink.dump(_BY_FAMILY, request):
                if connection := connection_of(body):
                    yield connection

    def ended_connections(self) -> tuple[list[Connection], bool]:
        """Those that have ended since the last call, and whether some were lost because they were too many."""
        told, lost = self._netlink.ended()
        found = (connection_of(body) for kind, body in told if kind == _BY_FAMILY)
        return [connection for connection in found if connection], lost


def connection_of(body: memoryview) -> Connection | None:
    """None for a record that is too short, or has no counts (a listening socket)."""
    if len(body) < _RECORD.size:
        return None
    family, _, local_port, remote_port, local, remote, _, cookie = _RECORD.unpack_from(body)
    length = 4 if family == socket.AF_INET else 16
    carried, cgroup = -1, 0
    for kind, content in attributes(body, _RECORD.size):
        if kind == _INFO and len(content) >= _BYTES_AT + _BYTES.size:
            acknowledged, received = _BYTES.unpack_from(content, _BYTES_AT)
            carried = acknowledged + received
        elif kind == _CGROUP and len(content) >= _NUMBER.size:
            (cgroup,) = _NUMBER.unpack_from(content)
    if carried < 0:
        return None
    return Connection(
        cookie,
        (_plain(local[:length]), int.from_bytes(local_port, "big")),
        (_plain(remote[:length]), int.from_bytes(remote_port, "big")),
        carried,
        cgroup,
    )


_MAPPED = bytes(10) + b"\xff\xff"


def _plain(address: bytes) -> bytes:
    """An IPv4 address that an IPv6 socket has is the IPv4 address."""
    return address[12:] if address.startswith(_MAPPED) else address
