"""Who may be moved: what the operator says of namespaces, openFuyao's Whitelist of pods, and pods of themselves.

Asked by the agent (`node/affinity/look.py`) for every pod, before a plan is made.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from numaware.affinity.whitelist import Whitelist

# A label or an annotation of a pod: `off` and it is left alone, `on` and it may be moved where its namespace may not.
KEY = "numaware.io/runtime-affinity"


class Said(msgspec.Struct, frozen=True):
    """What the cluster says at one moment: `words` of pods by uid, and a Whitelist."""

    words: Mapping[str, str] = {}
    whitelist: Whitelist = Whitelist()


class Chosen(msgspec.Struct, frozen=True):
    """Namespaces that may be moved; where none is named, all but those left out."""

    namespaces: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ("kube-system",)

    def bars(self, said: Said, uid: str, namespace: str, name: str) -> bool:
        """Nobody is moved against his word, nor past a Whitelist; whom that names needs no other permission."""
        word = said.words.get(uid, "")
        if word == "off":
            return True
        if said.whitelist.effective:
            return not said.whitelist.has(namespace, name)
        if word == "on":
            return False
        if not namespace:
            # Nobody knows whose it is.
            return True
        return namespace not in self.namespaces if self.namespaces else namespace in self.left_out


def word_of(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """What a pod says of itself, empty where it says nothing; one that says both is left alone."""
    said = {labels.get(KEY, ""), annotations.get(KEY, "")}
    return next((word for word in ("off", "on") if word in said), "")
