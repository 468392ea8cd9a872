"""The pods that openFuyao's Whitelist lets be moved: the value of such an object, whoever read it.

Read from the API server by `kube` and asked by `chosen.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec


class Whitelist(msgspec.Struct, frozen=True):
    """Pods by namespace and name; one that is not `effective` says nothing of anybody."""

    effective: bool = False
    pods: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(cls, names: Mapping[str, Iterable[str]], *, effective: bool = True) -> Whitelist:
        """From names by namespace. One entry may have several names: in YAML a list without dashes becomes one text."""
        pods = {
            (namespace, name) for namespace, texts in names.items() for text in texts for name in text.split()
        }
        return cls(effective, frozenset(pods))

    def has(self, namespace: str, name: str) -> bool:
        return (namespace, name) in self.pods
