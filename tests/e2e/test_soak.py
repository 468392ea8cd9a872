"""`make soak`: minutes of churn and of random kills, on real etcd, API server, controllers, kube-scheduler and a real kubelet."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from e2e import load, soak
from e2e.audit import audit
from e2e.console_program import ConsoleProgram
from e2e.control_plane import ROOT, ControlPlane, free_port, kubelet
from e2e.fake_nodes import FakeNodes
from e2e.ours import Daemon, extender_config
from e2e.program import Program, eventually
from e2e.real_kubelet import RealKubelet
from e2e.soak import ASKED, OURS, PODS, POOL, REAL, Soak, Victim
from e2e.test_agent_publisher import as_in_its_pod
from numaware.machine import synthetic
from numaware.simulate.clusters import NodeSpec

pytestmark = pytest.mark.long

MINUTES = float(os.environ.get("NUMAWARE_MINUTES", "30"))
OUT = ROOT / "dist/soak"
NODE = "real-1"
# Hollow nodes in a pool, and pods that are there at most: of nine a node, which is all that the load puts there, six.
_NODES, _PODS = 20, 120
# Samples are few and processes large: this much may be chance.
_FLAT = 1.1
_KUBELET = {
    "topologyManagerPolicy": "single-numa-node",
    "topologyManagerScope": "pod",
    "cpuManagerPolicy": "static",
    "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
    "reservedSystemCPUs": "0,14",
}
_PLUGIN = {"version": "v1", "resources": [{"name": load.GPU, "gpus": {"vendor": "nvidia"}}]}


def _specs() -> Iterator[NodeSpec]:
    for number, spec in enumerate(load.nodes(2 * _NODES)):
        pool = OURS if number < _NODES else ASKED
        yield replace(spec, labels=(*spec.labels, (POOL, pool)))


def _real_node(folder: Path, plane: ControlPlane, stack: ExitStack) -> list[Victim]:
    """A real kubelet with four GPUs of our device plugin, and the agent as its DaemonSet has it."""
    machine = synthetic.read("2s x 1n x 7c x 2t +gpu@0,0,1,1 mem=32Gi")
    pci = tuple(replace(one, driver="nvidia") if one.class_code == "030200" else one for one in machine.pci)
    node = RealKubelet(
        folder / "node",
        replace(machine, pci=pci),
        _KUBELET,
        name=NODE,
        kubeconfig=plane.kubeconfig("kubelet"),
    )
    stack.enter_context(node)
    eventually(lambda: plane.api().get(f"/api/v1/nodes/{NODE}"), "the node is there", 60)
    plane.api().patch(f"/api/v1/nodes/{NODE}", {"metadata": {"labels": {POOL: REAL}}})
    program = Path(sys.executable).with_name("numaware")
    config = folder / "plugin.yaml"
    config.write_text(yaml.safe_dump(_PLUGIN), encoding="utf-8")
    own = (f"--device-plugins={node.plugins_folder}", f"--listen=127.0.0.1:{free_port()}", "--log=json")
    plugin = Program(
        "numaware-device-plugin",
        [program, "device-plugin", f"--config={config}", f"--root={node.made}", "--no-nvml", *own],
        folder / "plugin.log",
    )
    agent = Program(
        "numaware-agent",
        [
            *as_in_its_pod(folder, node),
            program,
            "agent",
            f"--node={NODE}",
            f"--root={folder / 'host'}",
            f"--kubelet-config={node.config_file}",
            f"--device-plugins={node.plugins_folder}",
            f"--kubeconfig={plane.kubeconfig(plane.agent_on(NODE))}",
            f"--listen=127.0.0.1:{free_port()}",
            "--log=json",
        ],
        folder / "agent.log",
    )
    for started in (plugin, agent):
        stack.enter_context(started)
    return [
        Victim("kubelet", node.program, False, node.start),
        Victim(plugin.name, plugin, True, plugin.start),
        Victim(agent.name, agent, True, agent.start),
    ]


def _victims(folder: Path, plane: ControlPlane, stack: ExitStack) -> list[Victim]:
    """Every program there is, ours and Kubernetes' own, all of them up."""
    ours = [
        *(Daemon(plane, "scheduler", name=f"numaware-scheduler-{number}") for number in (1, 2)),
        Daemon(plane, "extender"),
        ConsoleProgram(plane),
    ]
    for program in ours:
        stack.enter_context(program)
    extender = next(one for one in ours if isinstance(one, Daemon) and one.name == "numaware-extender")
    extender.wait_ready()
    plane.start_scheduler(extender_config(extender))
    theirs = {
        "etcd": "etcd",
        "apiserver": "kube-apiserver",
        "controllers": "kube-controller-manager",
        "scheduler": "kube-scheduler",
    }
    return [
        *(Victim(one.name, one, True, one.start) for one in ours),
        *(
            Victim(name, plane.programs[part], False, plane.programs[part].start)
            for part, name in theirs.items()
        ),
        *_real_node(folder, plane, stack),
    ]


def test_nothing_is_lost_or_given_twice_while_programs_are_killed(
    tmp_path_factory: pytest.TempPathFactory, record_property: Callable[[str, object], None]
) -> None:
    # Sockets want a short path.
    folder = tmp_path_factory.mktemp("soak")
    with ExitStack() as stack:
        users = {"kubelet": kubelet(NODE)}
        plane = stack.enter_context(ControlPlane(folder / "plane", controllers=True, users=users))
        fakes = stack.enter_context(FakeNodes(plane, _specs()))
        life = Soak(plane, fakes, _victims(folder, plane, stack), _PODS)
        try:
            life.run(MINUTES * 60)
        finally:
            found = soak.told(life.account, life.waits())
            OUT.mkdir(parents=True, exist_ok=True)
            (OUT / "soak.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            (OUT / "soak.svg").write_text(soak.picture(found), encoding="utf-8")
        assert life.account.wrong == []
        # What runs on the real node only its kubelet knows; what is left is held against the truth of the hollow ones.
        real = {"labelSelector": f"{POOL}={REAL}"}
        plane.api().delete(PODS, **real)
        eventually(lambda: not plane.api().list_all(PODS, **real), "the real node is empty", 60)
        assert audit(plane, fakes) == []
        kills = ", ".join(f"{name} {count}" for name, count in found["kills"].items())
        record_property(
            "measured",
            f"soak of {found['minutes']} minutes: {found['pods']} pods, {len(life.account.kills)} kills ({kills}),"
            f" 0 lost, 0 twice, 0 refused, waits {found['waitSeconds']}, growth {found['growth']}",
        )
        ours = {name: rate for name, rate in found["growth"].items() if name.startswith("numaware")}
        assert {name: rate for name, rate in ours.items() if rate > _FLAT} == {}
