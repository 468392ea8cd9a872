"""TCP connections of one network namespace with the bytes they carried, as the kernel's sock_diag tells them.

A dump has every connection that is open; the group of destroyed sockets brings each one that has just ended, with its last
counts, so that short connections are counted exactly. A netlink socket belongs to the namespace it was opened in for ever,
so one thread enters the namespace, opens it and ends; nothing else ever leaves its own. Written by hand, as libraries read
dumps but not that group together with byte counters. Read by `collector.py`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

_SOCK_DIAG = 4
_BY_FAMILY = 20
_DUMP = 0x301
_DONE, _ERROR = 3, 2
_SOL_NETLINK, _ADD_MEMBERSHIP = 270, 1
# Ended TCP connections over IPv4 and IPv6.
_DESTROY_GROUPS = (1, 3)
# Established, and those on the way to their end: their bytes are said already.
_STATES = sum(1 << state for state in (1, 4, 5, 6, 8, 9, 11))
_WITH_INFO = 1 << 1
_HEADER = struct.Struct("=LHHLL")
_REQUEST = struct.Struct("=BBBxL48x")
# Family, state, ports, addresses, cookie; what follows is not needed.
_RECORD = struct.Struct("=BBxx2s2s16s16sLQ20x")
_ATTRIBUTE = struct.Struct("=HH")
_INFO, _CGROUP = 2, 21
# In tcp_info: bytes that the other side has acknowledged, and bytes received.
_BYTES = struct.Struct("=QQ")
_BYTES_AT = 120
_RECEIVE_BUFFER = 8 << 20
# Beyond the usual limit, for those who may.
_RECEIVE_BUFFER_FORCE = 33
_CLONE_NEWNET = 0x40000000

Endpoint = tuple[bytes, int]


class Connection(NamedTuple):
    """One side of a connection. `cgroup` is the number of the control group that made it, 0 where the kernel does not say."""

    cookie: int
    local: Endpoint
    remote: Endpoint
    bytes: int
    cgroup: int


class SocketDiagnosis:
    """Two netlink sockets in the namespace of this number at `path`: for dumps, and for what has ended.

    A path leads over a process, whose number may be another's by now: then it is as if nothing were there.
    """

    def __init__(self, path: str, number: int) -> None:
        self._dumps, self._ended = _opened_in(path, number)
        self._number = 0

    def close(self) -> None:
        self._dumps.close()
        self._ended.close()

    def open_connections(self) -> Iterator[Connection]:
        """All of now; OSError where the kernel refuses."""
        for family in (socket.AF_INET, socket.AF_INET6):
            self._number += 1
            request = _REQUEST.pack(family, socket.IPPROTO_TCP, _WITH_INFO, _STATES)
            size = _HEADER.size + len(request)
            self._dumps.send(_HEADER.pack(size, _BY_FAMILY, _DUMP, self._number, 0) + request)
            done = False
            while not done:
                data = self._dumps.recv(1 << 18)
                for kind, number, body in _messages(data):
                    if number != self._number:
                        continue
                    if kind == _ERROR:
                        code = -struct.unpack_from("=i", body)[0]
                        raise OSError(code, os.strerror(code))
                    done = done or kind == _DONE
                    if kind == _BY_FAMILY and (connection := _connection(body)):
                        yield connection

    def ended_connections(self) -> tuple[list[Connection], bool]:
        """Those that have ended since the last call, and whether some were lost because they were too many."""
        ended: list[Connection] = []
        lost = False
        while True:
            try:
                data = self._ended.recv(1 << 18)
            except BlockingIOError:
                return ended, lost
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                lost = True
                continue
            ended += [
                connection
                for kind, _, body in _messages(data)
                if kind == _BY_FAMILY and (connection := _connection(body))
            ]


def _opened_in(path: str, number: int) -> tuple[socket.socket, socket.socket]:
    # A thread of its own, as only the thread that enters is elsewhere then, and it ends.
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="network namespace") as elsewhere:
        return elsewhere.submit(_opened_elsewhere, path, number).result()


def _opened_elsewhere(path: str, number: int) -> tuple[socket.socket, socket.socket]:
    namespace = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if os.fstat(namespace).st_ino != number:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        _set_namespace(namespace)
    finally:
        os.close(namespace)
    return _opened()


def _set_namespace(descriptor: int) -> None:
    # Python has it from 3.12 on.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _opened() -> tuple[socket.socket, socket.socket]:
    dumps = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG)
    try:
        # A kernel answers at once; one that does not must not hang the agent.
        dumps.settimeout(2)
        ended = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG)
        try:
            ended.bind((0, 0))
            try:
                ended.setsockopt(socket.SOL_SOCKET, _RECEIVE_BUFFER_FORCE, _RECEIVE_BUFFER)
            except PermissionError:
                ended.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
            for group in _DESTROY_GROUPS:
                ended.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, group)
            ended.setblocking(False)
        except OSError:
            ended.close()
            raise
    except OSError:
        dumps.close()
        raise
    return dumps, ended


def _messages(data: bytes) -> Iterator[tuple[int, int, memoryview]]:
    """Type, number and body of each message; a length that cannot be right ends the reading."""
    view = memoryview(data)
    at = 0
    while at + _HEADER.size <= len(view):
        size, kind, _, number, _ = _HEADER.unpack_from(view, at)
        if size < _HEADER.size or at + size > len(view):
            return
        yield kind, number, view[at + _HEADER.size : at + size]
        at += size + 3 & ~3


def _connection(body: memoryview) -> Connection | None:
    """None for a record that is too short, or has no counts (a listening socket)."""
    if len(body) < _RECORD.size:
        return None
    family, _, local_port, remote_port, local, remote, _, cookie = _RECORD.unpack_from(body)
    length = 4 if family == socket.AF_INET else 16
    carried, cgroup = -1, 0
    at = _RECORD.size
    while at + _ATTRIBUTE.size <= len(body):
        size, kind = _ATTRIBUTE.unpack_from(body, at)
        if size < _ATTRIBUTE.size or at + size > len(body):
            break
        if kind == _INFO and size >= _ATTRIBUTE.size + _BYTES_AT + _BYTES.size:
            acknowledged, received = _BYTES.unpack_from(body, at + _ATTRIBUTE.size + _BYTES_AT)
            carried = acknowledged + received
        elif kind == _CGROUP and size >= _ATTRIBUTE.size + 8:
            cgroup = struct.unpack_from("=Q", body, at + _ATTRIBUTE.size)[0]
        at += size + 3 & ~3
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
