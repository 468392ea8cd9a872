"""Bytes between the pods of this node, period by period, from both ends of their TCP connections.

Every pod has its network namespace, and each is asked. A connection within the node is seen twice, and counted once, with
the larger count of its two ends. One through a Service is seen under the Service's address by the client and under the
client's by the server, so it counts by what the server sees. Which address is whose is seen there, too: the near end of a
connection in a pod's namespace is the pod's. Pods on the host's network share one namespace and are told apart by the
control group of their sockets. A pod talking to itself, or out of the node, is nobody's neighbour.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from time import thread_time

from numaware.affinity.traffic import Pair, pair_of
from numaware.node.traffic.sock_diag import Connection, Endpoint, SocketDiagnosis
from numaware.node.traffic.source import Counted, Counters, PodNetwork, place

# A connection, with the number of its namespace where its addresses mean something only there, else 0.
_Key = tuple[int, Endpoint, Endpoint]


class Collector:
    """Keeps the sockets of all namespaces open and remembers what was counted already."""

    def __init__(self) -> None:
        self._open: dict[int, SocketDiagnosis] = {}
        self._counters: Counters[_Key] = Counters()

    def close(self) -> None:
        for diagnosis in self._open.values():
            diagnosis.close()
        self._open.clear()

    def collect(self, pods: Sequence[PodNetwork]) -> Counted:
        """What was said since the last call. What was said in a namespace before it was first asked is nobody's now."""
        began = thread_time()
        known = set(self._open)
        unread = self._follow({pod.namespace: pod.path for pod in pods})
        period = _Period(pods)
        lost = []
        for namespace, diagnosis in sorted(self._open.items()):
            try:
                # What has ended first: whoever ends between the two is told the next time.
                ended, some_lost = diagnosis.ended_connections()
                period.add(namespace, ended, ended=True)
                period.add(namespace, diagnosis.open_connections())
            except OSError as error:
                unread[place(namespace)] = str(error)
                diagnosis.close()
                del self._open[namespace]
                continue
            if some_lost:
                lost.append(place(namespace))
        self._counters.begin({key: period.totals[key] for key in period.keys_of(self._open.keys() - known)})
        counted: dict[Pair, int] = {}
        for key, said in self._counters.grown(period.totals, period.ended).items():
            pair = period.pair(key)
            if pair is not None:
                counted[pair] = counted.get(pair, 0) + said
        return Counted(counted, len(period.totals), tuple(lost), unread, thread_time() - began)

    def _follow(self, paths: Mapping[int, str]) -> dict[str, str]:
        """Open what is new and close what is gone; why some could not be opened."""
        for gone in self._open.keys() - paths.keys():
            self._open.pop(gone).close()
        unread = {}
        for new in sorted(paths.keys() - self._open.keys()):
            try:
                self._open[new] = SocketDiagnosis(paths[new], new)
            except OSError as error:
                unread[place(new)] = str(error)
        return unread


class _Period:
    """The ends of all connections of one period, put together."""

    def __init__(self, pods: Sequence[PodNetwork]) -> None:
        # None where an address is seen in the namespaces of several pods.
        self._by_address: dict[bytes, str | None] = {}
        self._by_cgroup = {number: pod.uid for pod in pods for number in pod.cgroups}
        self._by_namespace = {pod.namespace: pod.uid for pod in pods if not pod.shared}
        self.totals: dict[_Key, int] = {}
        self.ended: set[_Key] = set()
        self._keys: dict[int, list[_Key]] = {}
        self._owners: dict[tuple[_Key, Endpoint], str] = {}

    def add(self, namespace: int, connections: Iterable[Connection], *, ended: bool = False) -> None:
        own = self._by_namespace.get(namespace)
        for connection in connections:
            key = _key(namespace, connection)
            self.totals[key] = max(self.totals.get(key, 0), connection.bytes)
            self._keys.setdefault(namespace, []).append(key)
            if ended:
                self.ended.add(key)
            owner = own or self._by_cgroup.get(connection.cgroup)
            if owner is None:
                continue
            self._owners[key, connection.local] = owner
            address = connection.local[0]
            if own is not None and not key[0]:
                self._by_address[address] = owner if self._by_address.get(address, owner) == owner else None

    def keys_of(self, namespaces: Iterable[int]) -> list[_Key]:
        """Connections that these namespaces told of."""
        return [key for namespace in namespaces for key in self._keys.get(namespace, ())]

    def pair(self, key: _Key) -> Pair | None:
        """The two pods; None unless both are of this node and not the same."""
        one, other = (
            self._owners.get((key, end)) or (None if key[0] else self._by_address.get(end[0]))
            for end in key[1:]
        )
        if one is None or other is None or one == other:
            return None
        return pair_of(one, other)


def _key(namespace: int, connection: Connection) -> _Key:
    one, other = sorted((connection.local, connection.remote))
    # 127.0.0.1 is somebody else in every namespace.
    return namespace if ipaddress.ip_address(one[0]).is_loopback else 0, one, other
