"""Stranded capacity: what is free, but of no use to the pods that really come.

The idea of fragmentation gradient descent (Weng et al., USENIX ATC 2023), taken per NUMA node and one step further. For
each kind of pod, as many of it are put on a zone as fit beside each other, by CPUs, memory and GPUs; what stays free then
is stranded for that kind. (FGD asks whether one such pod fits, and so sees too late that eight GPUs with CPUs for five
pods are not eight usable GPUs.) The weighted sum over all kinds is what the node wastes, and a placement is good if it leaves less of it. Which kinds count how much is `outlook.py`'s to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from numaware.schedule.fitting_pods import FittingPods
from numaware.schedule.need import Need
from numaware.schedule.room import WHOLE, NumaRoom, Room, Site


class Mix:
    """The kinds of pods that are expected, and the weight of each: how often it came, or what `outlook` makes of that.

    If some of them want GPUs, idle GPUs are what can be stranded, and the others have no say; if none does, CPUs are.
    """

    def __init__(self, weights: Mapping[Need, int] = MappingProxyType({})) -> None:
        self.by_gpus = any(need.gpus for need in weights)
        self.kinds = tuple(sorted(item for item in weights.items() if bool(item[0].gpus) == self.by_gpus))
        self.total = sum(weight for _, weight in self.kinds)
        # All kinds, wherever they fit.
        self.anywhere = FittingPods(self.kinds, by_gpus=self.by_gpus)
        self._wide: dict[Site, FittingPods | None] = {}

    def stranded(self, site: Site, room: Room) -> int:
        """What the pods of the mix cannot use of a node, on average, in thousandths of a GPU (or CPU), times `total`."""
        if site.spans == "freely" or not room.zones:
            lost = self._idle(room.whole)
        else:
            lost = sum(map(self.lost, room.capped))
        wide = self.wide(site)
        return lost - _useful(wide, room.whole) if wide is not None else lost

    def fall(self, site: Site, before: Room, after: Room) -> int:
        """By how much less of a node is stranded when it is `after` instead of `before`."""
        if site.spans == "freely" or not before.zones:
            return self.lost(before.whole) - self.lost(after.whole)
        fall, useful = 0, self.anywhere.useful
        for old, new in zip(before.zones, after.zones, strict=True):
            # None has more than the node has left.
            was = min(old.cpus, before.cpus), min(old.memory, before.memory), old.gpus
            now = min(new.cpus, after.cpus), min(new.memory, after.memory), new.gpus
            if now != was:
                fall += useful(*now) - useful(*was)
                if not self.by_gpus:
                    fall += self.total * WHOLE * (was[0] - now[0])
        if self.by_gpus:
            fall += self.total * (before.gpus - after.gpus)
        wide = self.wide(site)
        if wide is not None and (spanning := _useful(wide, before.whole)):
            fall -= spanning - _useful(wide, after.whole)
        return fall

    def lost(self, zone: NumaRoom) -> int:
        """What is free of a zone and of no use to pods that fit it."""
        return self._idle(zone) - _useful(self.anywhere, zone)

    def _idle(self, zone: NumaRoom) -> int:
        """What is free of a zone, for each pod that was seen."""
        return self.total * (sum(zone.gpus) if self.by_gpus else zone.cpus * WHOLE)

    def is_local(self, site: Site) -> bool:
        """Whether what is stranded on such a machine is the sum of what is stranded on its zones."""
        return self.wide(site) is None

    def relief(
        self,
        site: Site,
        before: Sequence[NumaRoom],
        after: Sequence[NumaRoom],
        wholes: tuple[NumaRoom, NumaRoom] | None,
    ) -> int:
        """By how much `stranded` falls at most when these zones, or these wholes where pods lie freely, become others.

        `wholes` is the node as one zone, before and after, for the kinds that need more than one. What else may change (the
        node's totals are a limit to every zone) can only make the fall less, as long as GPUs are what is stranded: fewer
        CPUs make no GPU more useful.
        """
        fall = sum(map(self.lost, before)) - sum(map(self.lost, after))
        if wholes is not None and (wide := self.wide(site)) is not None:
            fall -= _useful(wide, wholes[0]) - _useful(wide, wholes[1])
        return fall

    def wide(self, site: Site) -> FittingPods | None:
        """The kinds that need more than one zone of such a machine and may have it; None if there are none.

        Where pods lie freely the node is judged as a whole, and that are all kinds.
        """
        try:
            return self._wide[site]
        except KeyError:
            fitting = self._wide[site] = self._spanning(site)
            return fitting

    def _spanning(self, site: Site) -> FittingPods | None:
        if site.spans == "freely":
            return self.anywhere
        if site.spans == "never":
            return None
        sets, alone = self.anywhere.sets, 0
        for zone in site.empty.zones:
            alone |= sets.fitting(zone.cpus, zone.memory, zone.gpus)
        whole = site.empty.whole
        rest = sets.fitting(whole.cpus, whole.memory, whole.gpus) & ~alone
        kinds = [
            kind
            for kind, first in zip(self.kinds, sets.first, strict=True)
            if rest & first and _may_span(kind[0], site)
        ]
        return FittingPods(kinds, by_gpus=self.by_gpus) if kinds else None

    def supply(self, machines: Mapping[tuple[Site, Room], int]) -> dict[Need, int]:
        """How much of all that is free each kind could use if only it came: thousandths of GPUs (or CPUs)."""
        zones: Counter[NumaRoom] = Counter()
        wholes: dict[FittingPods, Counter[NumaRoom]] = {}
        for (site, room), count in machines.items():
            if site.spans != "freely":
                for zone in room.capped:
                    zones[zone] += count
            if (wide := self.wide(site)) is not None:
                wholes.setdefault(wide, Counter())[room.whole] += count
        usable = self.anywhere.usable(zones)
        for wide, rooms in wholes.items():
            for need, more in wide.usable(rooms).items():
                usable[need] += more
        return usable


def _useful(pods: FittingPods, zone: NumaRoom) -> int:
    return pods.useful(zone.cpus, zone.memory, zone.gpus)


def _may_span(need: Need, site: Site) -> bool:
    """Whether such a machine lets a pod that fits no single zone lie on several."""
    if not (need.pinned and site.alike):
        return True
    zones = site.empty.zones
    return not any(0 < need.gpus <= len(zone.gpus) for zone in zones) and not any(
        0 < getattr(need, field) <= getattr(zone, field) for field in site.alike for zone in zones
    )
