"""Which pods of a node should share a NUMA node, which stay as they are, and why: one answer for each pod.

Pods that hold no CPUs of their own float over all that nobody holds. Two that talk a lot and float, or lie on different
NUMA nodes, send their bytes across. Here the talking becomes a graph, the NUMA nodes places with room, and
`partition.py` looks for the places with the least talk across, weighted by distance. Whatever it costs to move (memory that
would have to follow, the disturbance itself) counts on the other side, so that a plan for a node that has not changed
is to stay. Nobody is moved whose CPUs the kubelet has pinned, who may not be, who has just been moved, or who would have to
leave the devices he uses.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from numaware.affinity.partition import best_places
from numaware.affinity.talkers import Talkers
from numaware.affinity.traffic import Pair, pair_of
from numaware.machine.cpuset import CpuSet

# Positions are counted in parts of this: a pod on two NUMA nodes is half on each.
_WHOLE = 1000
LOCAL_DISTANCE = 10
# A plan for more than so many that move is made once: a node must have its answer in a tenth of a second.
_MOST_LOOKED_AT_TWICE, _MOST_LOOKS = 400, 4

Code = Literal[
    "move",
    # It stays:
    "pinned",
    "not-chosen",
    "silent",
    "cooling-down",
    "together",
    "no-room",
    "no-gain",
    "one-numa-node",
]
# How much of a pod is on each zone, in thousandths.
Position = tuple[int, ...]
Matrix = list[list[int]]
Bar = Literal["pinned", "not-chosen"]


class Zone(msgspec.Struct, frozen=True):
    """A NUMA node as far as floating pods may use it: CPUs that nobody holds, and memory that can still be had there."""

    id: int
    cpus: CpuSet
    free_memory: int
    distances: Mapping[int, int]


class Member(msgspec.Struct, frozen=True):
    """One pod of the node. `cpu` is the larger of what it requests and uses, in thousandths.

    `zones` are the NUMA nodes it is confined to, empty while it floats; `devices` those of the devices it uses. `memory` is
    what it has in use on each NUMA node. `barred` says why nobody may move it. `resting` is the time left until it may be
    moved again, in seconds.
    """

    uid: str
    namespace: str
    name: str
    cpu: int
    memory: Mapping[int, int] = {}
    zones: tuple[int, ...] = ()
    devices: tuple[int, ...] = ()
    barred: Bar | None = None
    resting: int = 0


class Rules(msgspec.Struct, frozen=True):
    """`fill` is how much of a NUMA node's CPUs may be promised, in percent; `margin` what of its memory stays free.

    Memory that follows a pod must have paid off after `payback` seconds. Those who move save at least `least` bytes a second,
    and `share` percent of what they say across: many are not disturbed for next to nothing.
    """

    fill: int = 90
    margin: int = 256 << 20
    payback: int = 600
    least: int = 1_000_000
    share: int = 5


class Answer(msgspec.Struct, frozen=True):
    """What becomes of a pod. `saving` is what its group sends less, or less far, in bytes a second over the longest way."""

    uid: str
    code: Code
    target: int | None = None
    cpus: CpuSet = CpuSet()
    saving: int = 0
    with_pods: tuple[str, ...] = ()

    @property
    def moves(self) -> bool:
        return self.code == "move"


class Edge(msgspec.Struct, frozen=True):
    """What two pods say in bytes a second, and how much of it is between NUMA nodes, before and after."""

    pair: Pair
    rate: int
    before: int
    after: int


class Plan(msgspec.Struct, frozen=True):
    """Answers in the order of namespace and name, all talk, and who is joined by it, directly or through others."""

    answers: tuple[Answer, ...]
    edges: tuple[Edge, ...]
    groups: tuple[tuple[str, ...], ...]

    @property
    def total(self) -> int:
        return sum(one.rate for one in self.edges)

    @property
    def across_before(self) -> int:
        """Bytes a second between NUMA nodes as pods are now."""
        return sum(one.before for one in self.edges)

    @property
    def across_after(self) -> int:
        return sum(one.after for one in self.edges)

    @property
    def moves(self) -> tuple[Answer, ...]:
        return tuple(answer for answer in self.answers if answer.moves)


def plan(
    zones: Sequence[Zone], members: Iterable[Member], talk: Mapping[Pair, int], rules: Rules | None = None
) -> Plan:
    """One answer for every pod. Whoever carries it out and asks again is told to stay."""
    now, rules = tuple(members), rules or Rules()
    planning = _Planning(zones, now, talk, rules)
    targets = planning.targets()
    if 0 < len(targets) <= _MOST_LOOKED_AT_TWICE:
        # From there the search may find what it did not find from here.
        for _ in range(_MOST_LOOKS):
            there = _Planning(zones, planning.carried_out(targets), talk, rules).targets()
            if not there:
                break
            targets = planning.worthwhile(targets | there)
    return planning.plan(targets)


def crossing(zones: Sequence[Zone], members: Iterable[Member], talk: Mapping[Pair, int]) -> dict[str, int]:
    """Bytes a second that each pod exchanges with pods on other NUMA nodes, as they are; what it does with nobody is left out."""
    return _Planning(zones, members, talk, Rules()).crossing()


def between_zones(
    zones: Sequence[Zone], members: Iterable[Member], talk: Mapping[Pair, int]
) -> tuple[tuple[int, ...], ...]:
    """Bytes a second that the pods of one NUMA node say to those of another, or to each other, as they are now."""
    return _Planning(zones, members, talk, Rules()).between_zones()


class _Planning:
    """One plan in the making; a target is the place of a zone in the list of zones."""

    def __init__(
        self, zones: Sequence[Zone], members: Iterable[Member], talk: Mapping[Pair, int], rules: Rules
    ) -> None:
        self._zones = sorted(zones, key=lambda zone: zone.id)
        # One without CPUs that nobody holds is no place to sit, but those who hold them are there.
        self._seats = [place for place, zone in enumerate(self._zones) if zone.cpus]
        self._place = {zone.id: place for place, zone in enumerate(self._zones)}
        self._members = sorted(members, key=lambda member: (member.namespace, member.name, member.uid))
        known = {member.uid for member in self._members}
        self._talk = {
            pair: rate for pair, rate in sorted(talk.items()) if rate > 0 and known.issuperset(pair)
        }
        self._rules = rules
        self._partners: dict[str, dict[str, int]] = {}
        for (one, other), rate in self._talk.items():
            self._partners.setdefault(one, {})[other] = rate
            self._partners.setdefault(other, {})[one] = rate
        self._floating = _shares([len(zone.cpus) for zone in self._zones])
        self._at = [_shares([int(zone is other) for other in self._zones]) for zone in self._zones]
        # What a byte costs more than at home, there and back as distances need not be the same, and whether it crosses at all.
        self._extra = [
            [self._distance(a, b) + self._distance(b, a) - 2 * LOCAL_DISTANCE for b in self._zones]
            for a in self._zones
        ]
        self._crossing = [[int(a is not b) for b in self._zones] for a in self._zones]
        # Positions are few, pairs of pods many.
        self._means: dict[tuple[Position, Position, bool], int] = {}
        self._position = {member.uid: self._position_of(member) for member in self._members}
        self._used = [
            sum(
                member.cpu * self._position[member.uid][place] // _WHOLE
                for member in self._members
                # Pinned pods have CPUs of their own, which are no part of a zone's.
                if member.barred != "pinned"
            )
            for place in range(len(self._zones))
        ]

    def targets(self) -> dict[str, int]:
        """Who should move, and where."""
        return self.worthwhile(self._targets()) if len(self._seats) > 1 else {}

    def carried_out(self, targets: Mapping[str, int]) -> list[Member]:
        """The pods as they would be then."""
        return [
            msgspec.structs.replace(member, zones=(self._zones[targets[member.uid]].id,))
            if member.uid in targets
            else member
            for member in self._members
        ]

    def plan(self, targets: Mapping[str, int]) -> Plan:
        savings = {uid: saving for group, saving in self._savings(targets).items() for uid in group}
        answers = tuple(self._answer(member, targets, savings) for member in self._members)
        edges = tuple(
            Edge(pair, rate, self._across({pair: rate}, {}), self._across({pair: rate}, targets))
            for pair, rate in self._talk.items()
        )
        return Plan(answers, edges, tuple(self._groups(self._partners)))

    def between_zones(self) -> tuple[tuple[int, ...], ...]:
        """By the ascending ids of NUMA nodes, the same either way."""
        rates: dict[tuple[Position, Position], int] = {}
        for (one, other), rate in self._talk.items():
            # Positions are few.
            key = self._position[one], self._position[other]
            rates[key] = rates.get(key, 0) + rate
        places = range(len(self._zones))
        sums = [[0 for _ in places] for _ in places]
        for (here, there), rate in rates.items():
            for a in places:
                for b in places:
                    sums[a][b] += rate * here[a] * there[b]
        return tuple(
            tuple((sums[a][b] if a == b else sums[a][b] + sums[b][a]) // _WHOLE**2 for b in places)
            for a in places
        )

    def crossing(self) -> dict[str, int]:
        return {uid: self._across(self._talk_of([uid]), {}) for uid in self._partners}

    def _targets(self) -> dict[str, int]:
        """Where those who may move would sit best."""
        movable = [member for member in self._members if self._stays(member) is None]
        number = {member.uid: index for index, member in enumerate(movable)}
        floating = len(self._zones)
        apart = self._apart_with_floating()
        start = tuple(
            self._place[member.zones[0]]
            if len(member.zones) == 1 and member.zones[0] in self._place
            else floating
            for member in movable
        )
        talkers = Talkers(
            sizes=tuple((member.cpu, sum(member.memory.values())) for member in movable),
            start=start,
            bias=tuple(
                self._bias(member, place, number) for member, place in zip(movable, start, strict=True)
            ),
            edges=tuple(
                (min(number[one], number[other]), max(number[one], number[other]), rate)
                for (one, other), rate in self._talk.items()
                if one in number and other in number
            ),
            apart=apart,
            room=(*self._room(movable), None),
        )
        places = best_places(talkers)
        return {
            member.uid: place
            for member, place, now in zip(movable, places, start, strict=True)
            if place not in (now, floating)
        }

    def worthwhile(self, targets: Mapping[str, int]) -> dict[str, int]:
        """Only whole groups whose saving is worth it; those who talk to each other are judged together."""
        there = {uid: place for uid, place in targets.items() if self._position[uid] != self._at[place]}
        savings = {
            group: saving
            for group, saving in self._savings(there).items()
            if saving
            >= max(self._rules.least, self._across(self._talk_of(group), {}) * self._rules.share // 100)
        }
        # Room that only somebody would have left who stays is no room.
        while True:
            kept = {uid: there[uid] for group in savings for uid in group}
            overfull = self._overfull(kept)
            if overfull is None:
                return kept
            entering = [group for group in savings if any(kept[uid] == overfull for uid in group)]
            del savings[min(entering, key=lambda group: (savings[group], group))]

    def _answer(self, member: Member, targets: Mapping[str, int], savings: Mapping[str, int]) -> Answer:
        place = targets.get(member.uid)
        if place is not None:
            zone = self._zones[place]
            near = [uid for uid in self._partners[member.uid] if self._after(uid, targets) == self._at[place]]
            return Answer(member.uid, "move", zone.id, zone.cpus, savings[member.uid], tuple(sorted(near)))
        if len(self._seats) < 2:
            return Answer(member.uid, "one-numa-node")
        return Answer(member.uid, self._stays(member) or self._why_not_moved(member))

    def _stays(self, member: Member) -> Code | None:
        """Why it is not even considered."""
        if member.barred is not None:
            return member.barred
        if member.uid not in self._partners:
            return "silent"
        if member.resting > 0:
            return "cooling-down"
        return None

    def _why_not_moved(self, member: Member) -> Code:
        here = self._position[member.uid]
        if not any(
            self._mean(here, self._position[uid], self._crossing) for uid in self._partners[member.uid]
        ):
            return "together"
        room = self._room([member])
        taking = [
            place
            for place in self._allowed(member)
            if member.cpu <= room[place][0] and sum(member.memory.values()) <= room[place][1]
        ]
        return "no-gain" if taking else "no-room"

    def _allowed(self, member: Member) -> list[int]:
        return [
            place for place in self._seats if not member.devices or self._zones[place].id in member.devices
        ]

    def _room(self, movable: Sequence[Member]) -> list[tuple[int, int]]:
        """What each zone can take of these pods, beside all others."""
        rooms = []
        for place, zone in enumerate(self._zones):
            leaving = sum(
                member.cpu * self._position[member.uid][place] // _WHOLE
                for member in movable
                if member.barred != "pinned"
            )
            others = self._used[place] - leaving
            cpu = max(0, len(zone.cpus) * 10 * self._rules.fill - others)
            here = sum(member.memory.get(zone.id, 0) for member in movable)
            rooms.append((cpu, max(0, zone.free_memory + here - self._rules.margin)))
        return rooms

    def _overfull(self, targets: Mapping[str, int]) -> int | None:
        """The first zone that these moves would fill beyond what it takes."""
        movers = [member for member in self._members if member.uid in targets]
        for place, (cpu, memory) in enumerate(self._room(movers)):
            entering = [member for member in movers if targets[member.uid] == place]
            if sum(member.cpu for member in entering) > cpu:
                return place
            if sum(size for member in entering for size in member.memory.values()) > memory:
                return place
        return None

    def _bias(self, member: Member, start: int, number: Mapping[str, int]) -> tuple[int | None, ...]:
        """What it costs in each place apart from others who may move: talk with those who may not, and the move itself."""
        fixed = [(uid, rate) for uid, rate in self._partners[member.uid].items() if uid not in number]
        allowed = self._allowed(member)
        worst = max(map(max, self._extra))
        costs: list[int | None] = []
        for place in range(len(self._zones) + 1):
            if place != start and (place == len(self._zones) or place not in allowed):
                costs.append(None)
                continue
            position = self._floating if place == len(self._zones) else self._at[place]
            cost = sum(rate * _cost(position, self._position[uid], self._extra) for uid, rate in fixed)
            if place != start:
                away = sum(size for zone, size in member.memory.items() if zone != self._zones[place].id)
                # One disturbance costs as much as a tenth of the talk that makes pods move at all.
                cost += worst * _WHOLE * (away // self._rules.payback + self._rules.least // 10)
            costs.append(cost)
        return tuple(costs)

    def _apart_with_floating(self) -> tuple[tuple[int, ...], ...]:
        positions = [*self._at, self._floating]
        return tuple(tuple(_cost(a, b, self._extra) for b in positions) for a in positions)

    def _savings(self, targets: Mapping[str, int]) -> dict[tuple[str, ...], int]:
        """For those who move and are joined by talk, what they save; nothing where more would cross than before."""
        savings = {}
        worst = max((max(row) for row in self._extra), default=0) or 1
        for group in self._groups(targets):
            talk = self._talk_of(group)
            nearer = self._sum(talk, {}, self._extra) - self._sum(talk, targets, self._extra)
            more_crosses = self._across(talk, targets) > self._across(talk, {})
            savings[group] = 0 if more_crosses else nearer // worst
        return savings

    def _groups(self, uids: Container[str]) -> list[tuple[str, ...]]:
        """Those of them who are joined by talk, directly or through each other."""
        groups = []
        left = dict.fromkeys(member.uid for member in self._members if member.uid in uids)
        while left:
            group: list[str] = []
            waiting = [next(iter(left))]
            while waiting:
                uid = waiting.pop()
                if uid in left:
                    del left[uid]
                    group.append(uid)
                    waiting += self._partners.get(uid, ())
            groups.append(tuple(sorted(group)))
        return groups

    def _talk_of(self, uids: Iterable[str]) -> dict[Pair, int]:
        """All that these say, and each talk once."""
        return {
            pair_of(uid, other): rate for uid in uids for other, rate in self._partners.get(uid, {}).items()
        }

    def _across(self, talk: Mapping[Pair, int], targets: Mapping[str, int]) -> int:
        """Bytes a second between NUMA nodes, if these pods moved."""
        return self._sum(talk, targets, self._crossing)

    def _sum(self, talk: Mapping[Pair, int], targets: Mapping[str, int], matrix: Matrix) -> int:
        return sum(
            rate * self._mean(self._after(one, targets), self._after(other, targets), matrix) // _WHOLE
            for (one, other), rate in talk.items()
        )

    def _mean(self, one: Position, other: Position, matrix: Matrix) -> int:
        key = one, other, matrix is self._extra
        mean = self._means.get(key)
        if mean is None:
            mean = self._means[key] = _cost(one, other, matrix)
        return mean

    def _after(self, uid: str, targets: Mapping[str, int]) -> Position:
        place = targets.get(uid)
        return self._position[uid] if place is None else self._at[place]

    def _position_of(self, member: Member) -> Position:
        inside = [place for zone, place in sorted(self._place.items()) if zone in member.zones]
        if not inside:
            return self._floating
        widths = [len(zone.cpus) if place in inside else 0 for place, zone in enumerate(self._zones)]
        # Where nothing is left beside it, all the same.
        return _shares(widths if any(widths) else [int(place in inside) for place in range(len(widths))])

    def _distance(self, a: Zone, b: Zone) -> int:
        usual = LOCAL_DISTANCE if a is b else 2 * LOCAL_DISTANCE
        return max(LOCAL_DISTANCE, a.distances.get(b.id, usual)) if a is not b else LOCAL_DISTANCE


def _shares(widths: Sequence[int]) -> Position:
    """Thousandths in these proportions, exactly a thousand in all."""
    total = sum(widths)
    if not total:
        return (0,) * len(widths)
    ends = [sum(widths[: index + 1]) * _WHOLE // total for index in range(len(widths))]
    return tuple(end - begin for begin, end in zip([0, *ends], ends, strict=False))


def _cost(one: Position, other: Position, matrix: Matrix) -> int:
    """The mean over where the two may be, in thousandths."""
    total = sum(
        share * sum(part * cost for part, cost in zip(other, row, strict=True))
        for share, row in zip(one, matrix, strict=True)
        if share
    )
    return total // _WHOLE
