"""Netlink, the kernel's way of telling lists: a socket for dumps, and one that hears what has just ended.

A netlink socket belongs to the network namespace it was opened in for ever, so one thread enters the namespace, opens both
and ends; nothing else ever leaves its own. Used by `sock_diag.py` and `conntrack.py`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

_DUMP = 0x301
_DONE, _ERROR = 3, 2
_SOL_NETLINK, _ADD_MEMBERSHIP = 270, 1
_HEADER = struct.Struct("=LHHLL")
_ATTRIBUTE = struct.Struct("=HH")
# Two bits beside an attribute's kind: it has others in it, and its numbers are big endian.
_KIND = 0x3FFF
_MOST_READ = 1 << 18
_RECEIVE_BUFFER = 8 << 20
# Beyond the usual limit, for those who may.
_RECEIVE_BUFFER_FORCE = 33
_CLONE_NEWNET = 0x40000000


class Netlink:
    """Two sockets of this protocol in the namespace of this number at `path`; the second hears these groups.

    A path leads over a process, whose number may be another's by now: then it is as if nothing were there.
    """

    def __init__(self, protocol: int, groups: Sequence[int], path: str, number: int) -> None:
        # A thread of its own, as only the thread that enters is elsewhere then, and it ends.
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="network namespace") as elsewhere:
            opened = elsewhere.submit(_opened_elsewhere, protocol, groups, path, number)
        self._dumps, self._ended = opened.result()
        self._number = 0

    def close(self) -> None:
        self._dumps.close()
        self._ended.close()

    def dump(self, kind: int, request: bytes) -> Iterator[memoryview]:
        """Bodies of the messages of this kind that the kernel answers with; OSError where it refuses."""
        self._number += 1
        size = _HEADER.size + len(request)
        self._dumps.send(_HEADER.pack(size, kind, _DUMP, self._number, 0) + request)
        while True:
            for told, number, body in messages(self._dumps.recv(_MOST_READ)):
                if number != self._number:
                    continue
                if told == _ERROR:
                    code = -struct.unpack_from("=i", body)[0]
                    raise OSError(code, os.strerror(code))
                if told == _DONE:
                    return
                yield body

    def ended(self) -> tuple[list[tuple[int, memoryview]], bool]:
        """What was told since the last call, kind and body, and whether some was lost because it was too much."""
        told: list[tuple[int, memoryview]] = []
        lost = False
        while True:
            try:
                data = self._ended.recv(_MOST_READ)
            except BlockingIOError:
                return told, lost
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                lost = True
                continue
            told += [(kind, body) for kind, _, body in messages(data)]


def messages(data: bytes) -> Iterator[tuple[int, int, memoryview]]:
    """Kind, number and body of each message; a length that cannot be right ends the reading."""
    view = memoryview(data)
    at = 0
    while at + _HEADER.size <= len(view):
        size, kind, _, number, _ = _HEADER.unpack_from(view, at)
        if size < _HEADER.size or at + size > len(view):
            return
        yield kind, number, view[at + _HEADER.size : at + size]
        at += size + 3 & ~3


def attributes(body: memoryview, at: int = 0) -> Iterator[tuple[int, memoryview]]:
    """Kind and content of each attribute from there on; a length that cannot be right ends the reading."""
    while at + _ATTRIBUTE.size <= len(body):
        size, kind = _ATTRIBUTE.unpack_from(body, at)
        if size < _ATTRIBUTE.size or at + size > len(body):
            return
        yield kind & _KIND, body[at + _ATTRIBUTE.size : at + size]
        at += size + 3 & ~3


def _opened_elsewhere(
    protocol: int, groups: Sequence[int], path: str, number: int
) -> tuple[socket.socket, socket.socket]:
    namespace = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if os.fstat(namespace).st_ino != number:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        _set_namespace(namespace)
    finally:
        os.close(namespace)
    return _opened(protocol, groups)


def _set_namespace(descriptor: int) -> None:
    # Python has it from 3.12 on.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _opened(protocol: int, groups: Sequence[int]) -> tuple[socket.socket, socket.socket]:
    dumps = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
    try:
        # A kernel answers at once; one that does not must not hang the agent.
        dumps.settimeout(2)
        ended = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        try:
            ended.bind((0, 0))
            try:
                ended.setsockopt(socket.SOL_SOCKET, _RECEIVE_BUFFER_FORCE, _RECEIVE_BUFFER)
            except PermissionError:
                ended.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
            for group in groups:
                ended.setsockopt(_SOL_NETLINK, _ADD_MEMBERSHIP, group)
            ended.setblocking(False)
        except OSError:
            ended.close()
            raise
    except OSError:
        dumps.close()
        raise
    return dumps, ended
