"""A node in a folder: a configuration that a person wrote, a kubelet that runs, and what is known of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from node.kubelet_switch.fake_unit import FakeUnit
from numaware.machine import synthetic
from numaware.machine.topology import Machine
from numaware.node.kubelet_files import KubeletFiles
from numaware.node.kubelet_switch.journal import next_folder
from numaware.node.kubelet_switch.look import place_of
from numaware.node.kubelet_switch.plan import Manner, Plan, Situation, plan
from numaware.node.kubelet_switch.steps import Hands
from numaware.twin.inventory import hardware_of
from support import made_sysfs

CONFIG = """\
# Made by hand, for the machines of row 7.
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
clusterDNS:
    - 10.96.0.10   # the usual one
cpuManagerPolicy: none  # for now

# Kept back for the system.
systemReserved: {cpu: "1", memory: 1Gi}
evictionHard:
  memory.available: "100Mi"
healthzPort: 0
"""


class SwitchedNode:
    """The node, and short ways to ask of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.machine: Machine = synthetic.read("2s x 4c x 2t mem=32Gi")
        self.config = folder / "config.yaml"
        self.kubelet = folder / "kubelet"
        self.home = folder / "journal"
        self.kubelet.mkdir()
        self.config.write_text(CONFIG, encoding="utf-8")
        self.unit = FakeUnit(folder, hardware_of(self.machine))
        asyncio.run(self.unit.start())
        assert self.unit.active
        self.unit.calls.clear()

    @property
    def hands(self) -> Hands:
        return Hands(Path("/"), self.unit, seconds=0.0)

    def made(self) -> Path:
        """Where the kernel shows the machine."""
        root = self.folder / "machine"
        return root if root.exists() else made_sysfs.write(root, self.machine)

    def situation(self) -> Situation:
        place = place_of(Path("/"), config=str(self.config), kubelet_root=str(self.kubelet))
        return Situation(place, self.machine, KubeletFiles(self.kubelet).state())

    def planned(self, **wanted: object) -> Plan:
        manner = Manner(journal=str(next_folder(self.home)))
        return plan(self.situation(), wanted, manner)

    def bytes(self) -> dict[str, bytes]:
        """Everything that a switch may touch."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in [self.config, *sorted(self.kubelet.iterdir())]
        }


WANTED = {
    "cpuManagerPolicy": "static",
    "topologyManagerPolicy": "restricted",
    "memoryManagerPolicy": "Static",
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1124Mi"}}],
}


@pytest.fixture
def node(tmp_path: Path) -> SwitchedNode:
    return SwitchedNode(tmp_path)
