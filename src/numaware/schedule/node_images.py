"""Which images are on which nodes, and what that is worth to a pod: kube-scheduler's plugin ImageLocality (v1.35).

Kept apart from the facts of nodes: images come and go all the time and never decide whether a pod fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

_MIB = 1 << 20
# Fewer bytes than a small image are not worth a difference, and more per container than a large one count no more.
_LEAST = 23 * _MIB
_MOST_PER_CONTAINER = 1000 * _MIB
_TOP = 100
_MOST_TEMPLATES = 4096


class NodeImages:
    """Images by node: name -> bytes."""

    def __init__(self) -> None:
        self._on: dict[str, Mapping[str, int]] = {}
        self._holders: Counter[str] = Counter()
        self._points: dict[tuple[tuple[str, ...], int], Mapping[str, int]] = {}

    def set_node(self, node: str, images: Iterable[tuple[str, int]]) -> None:
        """What a node has now; nothing if it is gone."""
        new, old = dict(images), self._on.get(node, {})
        if new == old:
            return
        self._holders.subtract(old.keys())
        self._holders.update(new.keys())
        self._holders += Counter()
        if new:
            self._on[node] = new
        else:
            del self._on[node]
        self._points.clear()

    def points(self, images: tuple[str, ...], nodes: int) -> Mapping[str, int]:
        """What each node is worth to a pod with these images, 0 to 100, on a cluster of so many; no zeros."""
        if not self._on or not images or not any(image in self._holders for image in images):
            return {}
        key = images, nodes
        points_on = self._points.get(key)
        if points_on is None:
            if len(self._points) >= _MOST_TEMPLATES:
                self._points.clear()
            points_on = self._points[key] = {
                node: points
                for node, on_it in self._on.items()
                if (points := self._worth(images, on_it, nodes)) > 0
            }
        return points_on

    def _worth(self, images: tuple[str, ...], on_it: Mapping[str, int], nodes: int) -> int:
        # KUBE-SCHEDULER: an image counts the more the more nodes have it, so that one node that has it does not get all
        # the pods (scaledImageScore); as a floating-point number, cut off.
        total = sum(int(on_it[image] * (self._holders[image] / nodes)) for image in images if image in on_it)
        most = _MOST_PER_CONTAINER * len(images)
        return _TOP * (min(max(total, _LEAST), most) - _LEAST) // (most - _LEAST)
