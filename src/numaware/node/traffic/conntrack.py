"""Bytes between the pods of this node, from the kernel's connection tracking: UDP as well as TCP, and clients behind a Service.

The host's table has each flow with the addresses that its first packet had and those of the answer, so a Service's address is
none of the answer's: who answers is a pod. It counts bytes only where it was told to (net.netfilter.nf_conntrack_acct), and flows of
pods only where something on the node tracks them, such as kube-proxy's rules; what leaves out the host's network is not in it.
Flows that have ended are told with their last counts. Headers of packets count as well.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from time import thread_time
from typing import NamedTuple

from numaware.affinity.traffic import Pair, pair_of
from numaware.node.traffic.netlink import Netlink, attributes
from numaware.node.traffic.source import Counted, Counters, PodNetwork, place

_NETFILTER = 12
_GET, _DELETED = 0x101, 0x102
_DESTROY_GROUPS = (3,)
# Any family, version 0.
_REQUEST = struct.pack("=BBH", 0, 0, 0)
# Of a flow: its addresses one way and the other, its counters, and its number.
_ORIGINAL, _REPLY, _SENT, _RECEIVED, _ID = 1, 2, 9, 10, 12
_ADDRESSES = 1
_SOURCES = (1, 3)
_BYTES = 2
_OFF = "counts no bytes; sysctl -w net.netfilter.nf_conntrack_acct=1 makes it count those of new connections"
_LOCAL_V4 = re.compile(r"\|-- ([0-9.]+)\n\s+/32 host LOCAL")
_LOCAL_V6 = re.compile(r"^([0-9a-f]{32}) \S+ \S+ 00 ", re.MULTILINE)


class Flow(NamedTuple):
    """Who began to talk, and who answers. `bytes` are those of both; None where they are not counted."""

    number: int
    one: bytes
    other: bytes
    bytes: int | None


class Conntrack:
    """The table of the host's network namespace, which is found below the node's `root`."""

    def __init__(self, root: str) -> None:
        self._path = Path(root, "proc/1/ns/net")
        self._table: Netlink | None = None
        self._counters: Counters[Flow] = Counters()
        self._addresses: dict[int, frozenset[bytes]] = {}

    def close(self) -> None:
        if self._table is not None:
            self._table.close()
            self._table = None

    def collect(self, pods: Sequence[PodNetwork]) -> Counted:
        began = thread_time()
        host = ""
        try:
            number = self._path.stat().st_ino
            host = place(number)
            first = self._table is None
            table = self._table = self._table or Netlink(_NETFILTER, _DESTROY_GROUPS, str(self._path), number)
            told, lost = table.ended()
            ended = [flow for kind, body in told if kind == _DELETED and (flow := flow_of(body))]
            lasting = [flow for body in table.dump(_GET, _REQUEST) if (flow := flow_of(body))]
        except OSError as error:
            self.close()
            return Counted(
                {}, 0, (), {f"connection tracking, {host or self._path}": str(error)}, thread_time() - began
            )
        flows = [*lasting, *ended]
        totals = {flow._replace(bytes=None): flow.bytes for flow in flows if flow.bytes is not None}
        if first:
            self._counters.begin(totals)
        owners = self._owners(pods)
        counted: dict[Pair, int] = {}
        for flow, said in self._counters.grown(totals, {one._replace(bytes=None) for one in ended}).items():
            one, other = owners.get(flow.one), owners.get(flow.other)
            if one is not None and other is not None and one != other:
                pair = pair_of(one, other)
                counted[pair] = counted.get(pair, 0) + said
        unread = {f"connection tracking, {host}": _OFF} if flows and not totals else {}
        return Counted(counted, len(flows), (host,) if lost else (), unread, thread_time() - began)

    def _owners(self, pods: Sequence[PodNetwork]) -> dict[bytes, str]:
        """Pods by their addresses; those that share a network are not told apart by it."""
        alone = [pod for pod in pods if not pod.shared]
        self._addresses = {
            pod.namespace: self._addresses.get(pod.namespace) or _addresses(Path(pod.path).parents[1] / "net")
            for pod in alone
        }
        return {address: pod.uid for pod in alone for address in self._addresses[pod.namespace]}


def flow_of(body: memoryview) -> Flow | None:
    """None for what has no addresses of both."""
    number, carried = 0, None
    one = other = b""
    for kind, content in attributes(body, len(_REQUEST)):
        if kind == _ORIGINAL:
            one = _source(content)
        elif kind == _REPLY:
            other = _source(content)
        elif kind in (_SENT, _RECEIVED):
            carried = (carried or 0) + sum(
                int.from_bytes(size, "big") for what, size in attributes(content) if what == _BYTES
            )
        elif kind == _ID:
            number = int.from_bytes(content, "big")
    return Flow(number, one, other, carried) if one and other else None


def _source(direction: memoryview) -> bytes:
    return next(
        (
            bytes(address)
            for kind, addresses in attributes(direction)
            if kind == _ADDRESSES
            for what, address in attributes(addresses)
            if what in _SOURCES
        ),
        b"",
    )


def _addresses(folder: Path) -> frozenset[bytes]:
    """Of a network namespace, from the tables that the kernel shows of it; none that others may have, too."""
    return frozenset(_read_addresses(folder))


def _read_addresses(folder: Path) -> Iterator[bytes]:
    try:
        for text in _LOCAL_V4.findall((folder / "fib_trie").read_text(encoding="ascii")):
            address = IPv4Address(text)
            if not address.is_loopback:
                yield address.packed
        for text in _LOCAL_V6.findall((folder / "if_inet6").read_text(encoding="ascii")):
            yield IPv6Address(int(text, 16)).packed
    except (OSError, ValueError):
        return
