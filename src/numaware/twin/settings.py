"""A kubelet's settings as they were written, before anything is defaulted or judged.

The same settings come from a file, from flags, or from both; what the kubelet refuses, it refuses in what was written
(an amount that is no quantity, a set that is no CPU list). `None` is a setting nobody touched.
"""

from __future__ import annotations

import msgspec

from numaware.machine.quantity import Quantity
from numaware.twin.config import DEFAULT_VERSION, Amounts, KubeletConfig, MemoryReservation, Options
from numaware.twin.gates import Gates
from numaware.twin.rules import rules_for

# Linux defaults; the managers look at memory only, the rest is kept so that the set is the kubelet's.
DEFAULT_EVICTION_HARD: Options = (
    ("imagefs.available", "15%"),
    ("imagefs.inodesFree", "5%"),
    ("memory.available", "100Mi"),
    ("nodefs.available", "10%"),
    ("nodefs.inodesFree", "5%"),
)


class Settings(msgspec.Struct, frozen=True):
    """What a file or a command line says about the resource managers."""

    topology_policy: str | None = None
    topology_scope: str | None = None
    topology_options: Options | None = None
    cpu_policy: str | None = None
    cpu_options: Options | None = None
    cpu_reconcile_period: str | None = None
    memory_policy: str | None = None
    reserved_memory: tuple[MemoryReservation, ...] | None = None
    reserved_cpus: str | None = None
    kube_reserved: Options | None = None
    system_reserved: Options | None = None
    kube_reserved_cgroup: str | None = None
    system_reserved_cgroup: str | None = None
    eviction_hard: Options | None = None
    merge_default_eviction: bool | None = None
    feature_gates: Gates | None = None

    def patched(self, later: Settings) -> Settings:
        """As a later configuration file changes an earlier one: maps are joined key by key, the rest is replaced."""
        return self._overlaid(later, joined=_MAPS)

    def overridden(self, flags: Settings) -> Settings:
        """As flags change a file: a flag replaces a whole map, except that feature gates are joined."""
        return self._overlaid(flags, joined=("feature_gates",))

    def _overlaid(self, later: Settings, joined: tuple[str, ...]) -> Settings:
        changes = {
            name: value for name in later.__struct_fields__ if (value := getattr(later, name)) is not None
        }
        for name in joined:
            if name in changes:
                changes[name] = tuple(
                    sorted({**dict(getattr(self, name) or ()), **dict(changes[name])}.items())
                )
        return msgspec.structs.replace(self, **changes)


_MAPS = (
    "topology_options",
    "cpu_options",
    "kube_reserved",
    "system_reserved",
    "eviction_hard",
    "feature_gates",
)


def configuration(settings: Settings, version: str = DEFAULT_VERSION) -> KubeletConfig:
    """The configuration that these settings amount to, with the kubelet's defaults.

    Amounts that are no quantities are left out: such settings stop the kubelet, see `validation.problems`.
    """
    rules_for(version)
    return KubeletConfig(
        version=version,
        topology_policy=settings.topology_policy or "none",
        topology_scope=settings.topology_scope or "container",
        topology_options=settings.topology_options or (),
        cpu_policy=settings.cpu_policy or "none",
        cpu_options=settings.cpu_options or (),
        memory_policy=settings.memory_policy or "None",
        kube_reserved=_amounts(settings.kube_reserved),
        system_reserved=_amounts(settings.system_reserved),
        eviction_hard=_eviction_hard(settings),
        reserved_cpus=settings.reserved_cpus or None,
        reserved_memory=settings.reserved_memory or (),
        feature_gates=settings.feature_gates or (),
    )


def _eviction_hard(settings: Settings) -> Options:
    """Defaults count only if nothing at all is set, or if they are asked to be merged in (v1.33 and later)."""
    if settings.eviction_hard is None:
        return DEFAULT_EVICTION_HARD
    if settings.merge_default_eviction:
        return tuple(sorted({**dict(DEFAULT_EVICTION_HARD), **dict(settings.eviction_hard)}.items()))
    return settings.eviction_hard


def _amounts(texts: Options | None) -> Amounts:
    amounts = []
    for name, text in texts or ():
        try:
            amounts.append((name, Quantity.parse(text)))
        except ValueError:
            continue
    return tuple(amounts)
