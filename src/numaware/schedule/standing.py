"""How the members of a class stand: what kind of machine they are, what is free on them, and what that is good for."""

from __future__ import annotations

from numaware.schedule.cluster import Member
from numaware.schedule.room import room, site
from numaware.schedule.stranding import Mix

# CPUs, bytes and GPUs of what is judged as one, and what the pods of a mix would use of it.
Part = tuple[int, int, tuple[int, ...], int]


class Standing:
    """What scores need to know of a class, worked out once; `look` adds what a mix of pods makes of it."""

    __slots__ = (
        "capped",
        "freely",
        "gpus",
        "grouped",
        "kubelet",
        "largest",
        "memory",
        "milli",
        "mix",
        "most_cpus",
        "most_memory",
        "parts",
        "room",
        "site",
        "spanning",
        "whole",
    )

    def __init__(self, member: Member) -> None:
        load = member.load
        node, used = load.node, load.used
        self.kubelet = node.kubelet.number
        self.site = site(node.kubelet, member.facts.allocatable)
        self.room = room(node, load.shares, member.allocatable, used)
        # Thousandths of CPUs, and bytes, that nobody has requested.
        self.milli = member.allocatable.get("cpu", 0) - used.get("cpu", 0)
        self.memory = self.room.memory
        self.capped = self.room.capped
        self.whole = self.room.whole
        self.gpus = sum(self.whole.gpus)
        # The most that any zone has.
        self.most_cpus = max([zone.cpus for zone in self.room.zones], default=0)
        self.most_memory = max([zone.memory for zone in self.room.zones], default=0)
        # The largest part that is left of any GPU.
        self.largest = self.whole.gpus[-1] if self.whole.gpus else 0
        # A NUMA node that shares its memory with others takes no pod of its own, whatever is free there.
        self.grouped = any(part.cells & (part.cells - 1) for part in node.state.memory.nodes)
        self.freely = self.site.spans == "freely"
        self.mix: Mix | None = None
        # The zones, or the node as a whole; and what those pods would use that need several zones.
        self.parts: list[Part] = []
        self.spanning = 0

    def look(self, mix: Mix) -> None:
        """Keep in mind what the node is good for, by this mix until there is another."""
        self.mix = mix
        whole, useful, wide = self.whole, mix.anywhere.useful, mix.wide(self.site)
        zones, capped = ((whole,), (whole,)) if self.freely else (self.room.zones, self.capped)
        self.parts = [
            (zone.cpus, zone.memory, zone.gpus, useful(usable.cpus, usable.memory, zone.gpus))
            for zone, usable in zip(zones, capped, strict=True)
        ]
        self.spanning = 0
        if wide is not None and not self.freely:
            self.spanning = wide.useful(whole.cpus, whole.memory, whole.gpus)
