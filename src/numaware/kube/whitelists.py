"""openFuyao's Whitelist: the pods that may be moved while they run, by namespace. There is one object of this name."""

from __future__ import annotations

import msgspec

from numaware.kube.client import Client
from numaware.kube.decoding import Reader, Wire
from numaware.kube.resources import WHITELISTS

NAME = "whitelist"


class _Pods(Wire):
    namespace: str = ""
    names: tuple[str, ...] | None = None


class _Spec(Wire):
    effectiveflag: bool = False
    target_pods: tuple[_Pods, ...] | None = None


class Whitelist(Wire):
    """What it says."""

    spec: _Spec = msgspec.field(default_factory=_Spec)

    @property
    def effective(self) -> bool:
        """Whether only pods that it names may be moved."""
        return self.spec.effectiveflag

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Of pods, by namespace."""
        found: dict[str, tuple[str, ...]] = {}
        for one in self.spec.target_pods or ():
            found[one.namespace] = (*found.get(one.namespace, ()), *(one.names or ()))
        return found


_WHITELIST = Reader("Whitelist", Whitelist)


async def read(client: Client, namespace: str, within: float) -> Whitelist:
    """The object as it is now."""
    return _WHITELIST.answered(await client.get(WHITELISTS, NAME, namespace, within=within))
