"""What a restart of the kubelet would cost this node, as metrics: pods that it would refuse then, by the reason it would give.

A kubelet admits every pod anew when it starts (`twin/readmission.py`); `numaware doctor --restart-safe` names the pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from numaware.node.exporter.families import Family, gauge
from numaware.twin.errors import KubeletPanic, StartError
from numaware.twin.node import Node
from numaware.twin.readmission import lost_at_restart


class RestartMetrics:
    """Asked at every scrape, worked out only when the node has become another one."""

    def __init__(self, node: Callable[[], Node | None]) -> None:
        self._node = node
        self._asked: Node | None = None
        self._known: tuple[Family, ...] = ()

    def families(self) -> Iterator[Family]:
        node = self._node()
        if node is not self._asked:
            self._asked, self._known = node, () if node is None else tuple(_families(node))
        yield from self._known


def _families(node: Node) -> Iterator[Family]:
    reasons: Counter[str] = Counter()
    stays_down = False
    try:
        reasons.update(lost.reason for lost in lost_at_restart(node))
    except StartError:
        stays_down = True
    except (KubeletPanic, ValueError):
        # Nobody can tell, and a zero would be a promise.
        return
    yield gauge(
        "numa_node_pods_lost_at_restart",
        "Running pods that the kubelet would refuse if it were started again now, by its reason.",
        ["reason"],
        [((reason,), count) for reason, count in sorted(reasons.items())],
    )
    yield gauge(
        "numa_node_restart_stops_kubelet",
        "1 where the kubelet would not start again with the state files that it has written.",
        [],
        [((), float(stays_down))],
    )
