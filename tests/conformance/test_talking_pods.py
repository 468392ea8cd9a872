"""Talking pods on every captured machine with several NUMA nodes: pairs that fit come together, and the plan is the last."""

from __future__ import annotations

import json

import msgspec
import pytest

from numaware.affinity.chosen import Said
from numaware.affinity.plan import Member, Rules, plan
from numaware.affinity.traffic import pair_of
from numaware.machine import sysfs
from numaware.machine.tree import open_tree
from numaware.node.affinity.look import Look, zones_of
from support.shared_data import ROOT, shared

FOLDER = ("data", "topologies")
NAMES = sorted(path.parent.name for path in ROOT.joinpath(*FOLDER).glob("*/expected.json"))
RATE = 20_000_000


@pytest.mark.parametrize("name", NAMES)
def test_pairs_come_together_wherever_a_machine_has_room_for_them(name: str) -> None:
    document = json.loads(shared(*FOLDER, name, "expected.json").read_bytes())
    machine = sysfs.read(open_tree(shared(*FOLDER, name, document["archive"])))
    free = {numa.id: numa.memory_bytes or 0 for numa in machine.numa}
    zones = zones_of(Look(machine, (), (), free, {}, Said()))
    seats = [zone for zone in zones if zone.cpus]
    # A pair for every NUMA node with CPUs, each half as large as the smallest takes.
    each = min((len(zone.cpus) for zone in seats), default=0) * 400
    members = [Member(f"u{number}", "shop", f"p{number}", each) for number in range(2 * len(seats))]
    talk = {pair_of(f"u{number}", f"u{number + 1}"): RATE for number in range(0, len(members), 2)}
    rules = Rules(margin=0)
    planned = plan(zones, members, talk, rules)
    assert planned.across_after <= planned.across_before
    if len(seats) < 2:
        assert not planned.moves
        return
    # Thousandths of a CPU that are left over may keep the last pair floating.
    assert planned.across_after <= planned.across_before // 2
    home = {answer.uid: answer.target for answer in planned.moves}
    for zone in seats:
        assert sum(each for target in home.values() if target == zone.id) <= 900 * len(zone.cpus)
    there = [
        msgspec.structs.replace(member, zones=(target,))
        if (target := home.get(member.uid)) is not None
        else member
        for member in members
    ]
    assert not plan(zones, there, talk, rules).moves
