"""Nodes by their labels: which node is in which domain, and who is in none."""

from __future__ import annotations

from numaware.workload.scheduling import Labels


class Places:
    """The labels of every node; for keys that somebody asks about, also the other way round."""

    def __init__(self) -> None:
        self.labels: dict[str, dict[str, str]] = {}
        self._inside: dict[str, dict[str, list[str]]] = {}
        self._outside: dict[str, list[str]] = {}

    def set(self, node: str, labels: Labels) -> None:
        self.labels[node] = dict(labels)
        self._forget()

    def drop(self, node: str) -> None:
        del self.labels[node]
        self._forget()

    def inside(self, key: str) -> dict[str, list[str]]:
        """The nodes of every domain of a key."""
        if key not in self._inside:
            self._look_at(key)
        return self._inside[key]

    def outside(self, key: str) -> list[str]:
        """The nodes that have no such label."""
        if key not in self._outside:
            self._look_at(key)
        return self._outside[key]

    def _look_at(self, key: str) -> None:
        inside: dict[str, list[str]] = {}
        outside: list[str] = []
        for node, labels in self.labels.items():
            domain = labels.get(key)
            (outside if domain is None else inside.setdefault(domain, [])).append(node)
        self._inside[key] = inside
        self._outside[key] = outside

    def _forget(self) -> None:
        self._inside.clear()
        self._outside.clear()
