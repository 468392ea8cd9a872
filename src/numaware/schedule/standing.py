"""How the members of a class stand: what kind of machine they are, what is free on them, and what that is good for."""

from __future__ import annotations

from numaware.schedule.cluster import Member
from numaware.schedule.room import room, site
from numaware.schedule.stranding import Mix


class Standing:
    """What scores need to know of a class, worked out once; `look` adds what a mix of pods makes of it."""

    __slots__ = (
        "capped",
        "freely",
        "gpus",
        "grouped",
        "kubelet",
        "largest",
        "milli",
        "mix",
        "parts",
        "room",
        "site",
        "spanning",
        "useful",
        "whole",
    )

    def __init__(self, member: Member) -> None:
        load = member.load
        node, used = load.node, load.used
        self.kubelet = node.kubelet.number
        self.site = site(node.kubelet, member.facts.allocatable)
        self.room = room(node, load.shares, member.allocatable, used)
        # Thousandths of CPUs that nobody has requested.
        self.milli = member.allocatable.get("cpu", 0) - used.get("cpu", 0)
        self.capped = self.room.capped
        self.whole = self.room.whole
        self.gpus = sum(self.whole.gpus)
        # The largest part that is left of any GPU.
        self.largest = self.whole.gpus[-1] if self.whole.gpus else 0
        # A NUMA node that shares its memory with others takes no pod of its own, whatever is free there.
        self.grouped = any(part.cells & (part.cells - 1) for part in node.state.memory.nodes)
        self.freely = self.site.spans == "freely"
        # What is judged one by one: the zones, or the node as a whole.
        self.parts = (self.whole,) if self.freely else self.room.zones
        self.mix: Mix | None = None
        # What the pods of the mix would use of each part, and those of them that need several zones of the node.
        self.useful: list[int] = []
        self.spanning = 0

    def look(self, mix: Mix) -> None:
        """Keep in mind what the node is good for, by this mix until there is another."""
        self.mix = mix
        whole, useful = self.whole, mix.anywhere.useful
        if self.freely:
            self.useful = [useful(whole.cpus, whole.memory, whole.gpus)]
            return
        self.useful = [useful(zone.cpus, zone.memory, zone.gpus) for zone in self.capped]
        wide = mix.wide(self.site)
        self.spanning = wide.useful(whole.cpus, whole.memory, whole.gpus) if wide is not None else 0
