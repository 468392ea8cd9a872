"""Every captured machine gets a kubelet configuration that starts there and admits what it is for."""

from __future__ import annotations

import json

import pytest

from numaware.diagnose.recommend.configuration import recommend
from numaware.diagnose.render import kubelet_yaml
from numaware.diagnose.rules.lint import World, lint
from numaware.errors import InputError
from numaware.machine import sysfs
from numaware.machine.tree import open_tree
from numaware.twin.inventory import hardware_of
from support.choices import PURPOSES
from support.shared_data import ROOT, shared

FOLDER = ("data", "topologies")
NAMES = sorted(path.parent.name for path in ROOT.joinpath(*FOLDER).glob("*/expected.json"))


@pytest.mark.parametrize("name", NAMES)
def test_a_captured_machine_gets_a_configuration_for_every_purpose(name: str) -> None:
    expected = json.loads(shared(*FOLDER, name, "expected.json").read_bytes())
    machine = sysfs.read(open_tree(shared(*FOLDER, name, expected["archive"])))
    try:
        hardware = hardware_of(machine)
    except ValueError:
        with pytest.raises(InputError):
            recommend(machine, "mixed")
        return
    for purpose in PURPOSES:
        found = recommend(machine, purpose)
        assert found.verdict.admitted, found.verdict.message
        findings = lint(kubelet_yaml.render(found, name).encode(), "f", World(hardware=hardware)).findings
        assert [one for one in findings if one.severity != "info"] == []
