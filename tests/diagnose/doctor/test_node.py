"""A whole node made of files, in order at first; then one thing is broken at a time."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from numaware.diagnose.doctor.check import STATUSES
from numaware.diagnose.doctor.node import Examination, examine
from numaware.diagnose.render import checkup
from numaware.diagnose.texts import Lang
from numaware.machine import sysfs
from numaware.machine.drawing.lines import line_width, plain
from numaware.machine.tree import open_tree
from numaware.twin import kubelet_config
from numaware.twin.files import state_files
from numaware.twin.inventory import hardware_of, plugin_resource
from numaware.twin.node import Node
from numaware.workload.pod import NANO, Container, Pod
from support.choices import LANGUAGES
from support.made_machine import two_nodes, write

CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
cpuManagerPolicy: static
reservedSystemCPUs: "0,4"
topologyManagerPolicy: restricted
memoryManagerPolicy: Static
evictionHard: {memory.available: 512Ki}
reservedMemory: [{numaNode: 0, limits: {memory: 512Ki}}]
"""
KUBELET = "var/lib/kubelet"
UID = "0a1b"
GPU = "nvidia.com/gpu"


def node_with_pod(root: Path, numa: tuple[int, ...] = (1,)) -> dict[str, str]:
    """The state files of this machine after one pod was admitted."""
    machine = sysfs.read(open_tree(root))
    hardware = hardware_of(machine, [plugin_resource(GPU, {"g0": numa})])
    config = kubelet_config.read(CONFIG.encode(), "c").config
    limits = tuple(sorted({"cpu": 2 * NANO, "memory": 4096 * NANO, GPU: NANO}.items()))
    pod = Pod("p", uid=UID, containers=(Container("main", limits, limits),))
    verdict = Node.fresh(hardware, config).admit(pod)
    assert verdict.admitted, verdict.message
    return state_files(verdict.node.kubelet, verdict.held)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        **two_nodes(),
        "etc/hostname": "node7\n",
        f"{KUBELET}/config.yaml": CONFIG,
        f"{KUBELET}/pods/{UID}/etc-hosts": "",
        "etc/containerd/config.toml": (
            'version = 3\n[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]\n  SystemdCgroup = true\n'
        ),
        "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory\n",
        "proc/1/comm": "systemd\n",
        "proc/1/cmdline": "/sbin/init\0",
        "proc/77/comm": "kubelet\n",
        "proc/77/cmdline": f"/usr/bin/kubelet\0--config=/{KUBELET}/config.yaml\0",
        "proc/78/comm": "containerd\n",
        "proc/78/cmdline": "containerd\0",
    }
    write(tmp_path, files)
    for name, text in node_with_pod(tmp_path).items():
        folder = f"{KUBELET}/device-plugins" if name == "kubelet_internal_checkpoint" else KUBELET
        write(tmp_path, {f"{folder}/{name}": text})
    (tmp_path / KUBELET / "pod-resources").mkdir()
    (tmp_path / KUBELET / "pod-resources" / "kubelet.sock").write_text("")
    return tmp_path


def found(root: Path, version: str = "v1.35.0") -> Examination:
    return examine(open_tree(root), version)


def status(root: Path, name: str, version: str = "v1.35.0") -> str:
    (check,) = (check for check in found(root, version).checks if check.name == name)
    return check.status


def codes(root: Path, version: str = "v1.35.0") -> list[str]:
    return [one.code for one in found(root, version).findings]


def test_a_node_in_order_has_no_findings_and_every_check_says_so(root: Path) -> None:
    seen = found(root)
    assert seen.node == "node7"
    assert [(check.name, check.status) for check in seen.checks if check.status != "ok"] == []
    assert {check.name for check in seen.checks} >= {
        "machine",
        "kubelet-config",
        "cpu-state",
        "restart",
        "podresources",
        "nri",
        "cgroup",
    }


def edited(path: str, old: str, new: str) -> Callable[[Path], None]:
    def edit(root: Path) -> None:
        file = root / path
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    return edit


def removed(path: str) -> Callable[[Path], None]:
    return lambda root: (root / path).unlink()


def added(path: str, text: str) -> Callable[[Path], None]:
    return lambda root: (write(root, {path: text}), None)[1]


@pytest.mark.parametrize(
    ("breaks", "check", "code"),
    [
        (
            edited(f"{KUBELET}/cpu_manager_state", '"static"', '"none"'),
            "cpu-state",
            "cpu-manager-state-corrupt",
        ),
        (added(f"{KUBELET}/cpu_manager_state", "{}"), "cpu-state", "cpu-manager-state-corrupt"),
        (
            edited(f"{KUBELET}/config.yaml", "cpuManagerPolicy: static", "cpuManagerPolicy: none"),
            "cpu-state",
            "cpu-manager-state-policy-mismatch",
        ),
        (edited(f"{KUBELET}/config.yaml", '"0,4"', '"0"'), "restart", ""),
        (
            edited(f"{KUBELET}/config.yaml", '"0,4"', '"1,5"'),
            "cpu-state",
            "cpu-manager-state-reserved-mismatch",
        ),
        (
            edited(f"{KUBELET}/config.yaml", "available: 512Ki", "available: 256Ki"),
            "kubelet-config",
            "memory-manager-reserved-memory-mismatch",
        ),
        (
            edited(f"{KUBELET}/memory_manager_state", '"free":', '"free":1'),
            "memory-state",
            "memory-manager-state-corrupt",
        ),
        (removed(f"{KUBELET}/pod-resources/kubelet.sock"), "podresources", "podresources-missing"),
        (removed("proc/77/comm"), "kubelet", "kubelet-not-running"),
        (added("proc/79/comm", "numad\n"), "services", "numad-running"),
        (removed("sys/fs/cgroup/cgroup.controllers"), "cgroup", ""),
        (edited("sys/fs/cgroup/cgroup.controllers", "cpuset ", ""), "cgroup", "cgroup-without-cpuset"),
        (
            edited("etc/containerd/config.toml", "= true", "= false"),
            "cgroup-driver",
            "cgroup-driver-mismatch",
        ),
        (added("sys/devices/system/cpu/isolated", "4-5\n"), "isolated-cpus", "isolated-cpus-reserved"),
    ],
)
def test_one_broken_thing_is_found_where_it_is(
    root: Path, breaks: Callable[[Path], None], check: str, code: str
) -> None:
    breaks(root)
    if code:
        assert status(root, check) in ("warning", "error")
        assert code in codes(root)
    else:
        assert status(root, check) in ("unknown", "ok")


def test_another_machine_is_found_out_by_the_state_files_at_the_next_restart(root: Path) -> None:
    # CPU 7 is gone since the kubelet wrote its file.
    (root / "sys/devices/system/cpu/online").write_text("0-6\n")
    assert status(root, "cpu-state") == "ok"
    assert status(root, "restart") == "error"
    (one,) = (one for one in found(root).findings if one.code == "cpu-manager-state-reserved-mismatch")
    assert "doesn't match with CPUs in state" in one.facts["message"]


def test_resources_of_pods_that_are_gone_are_told(root: Path) -> None:
    (root / KUBELET / "pods" / UID).rename(root / KUBELET / "pods" / "other")
    stale = [one for one in found(root).findings if one.code == "state-stale-entries"]
    assert {one.facts["file"].rpartition("/")[2] for one in stale} == {
        "cpu_manager_state",
        "memory_manager_state",
        "kubelet_internal_checkpoint",
    }
    assert all(one.facts["uids"] == [UID] for one in stale)


def test_devices_without_a_numa_node_are_told(root: Path) -> None:
    text = node_with_pod(root, numa=())["kubelet_internal_checkpoint"]
    (root / KUBELET / "device-plugins" / "kubelet_internal_checkpoint").write_text(text)
    assert codes(root) == ["devices-without-topology"]


@pytest.mark.parametrize(("version", "severity"), [("v1.34.0", "warning"), ("v1.35.0", "error")])
def test_old_control_groups_stop_new_kubelets(root: Path, version: str, severity: str) -> None:
    (root / "sys/fs/cgroup/cgroup.controllers").unlink()
    (root / "sys/fs/cgroup/cpuset").mkdir()
    assert status(root, "cgroup", version) == severity


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('version = 2\n[plugins."io.containerd.nri.v1.nri"]\n  disable = true\n', ["nri-disabled"]),
        ('version = 2\n[plugins."io.containerd.nri.v1.nri"]\n  disable = false\n', []),
        ("version = 2\n", ["nri-disabled"]),
        ("version = 3\n", []),
        ("= not toml", ["nri-disabled"]),
    ],
)
def test_nri_is_read_from_containerd(root: Path, text: str, expected: list[str]) -> None:
    (root / "etc/containerd/config.toml").write_text(text)
    assert codes(root) == expected


def test_a_socket_of_nri_is_proof_enough(root: Path) -> None:
    (root / "etc/containerd/config.toml").write_text("version = 2\n")
    (root / "run" / "nri").mkdir(parents=True)
    (root / "run" / "nri" / "nri.sock").write_text("")
    assert codes(root) == []


def test_flags_of_the_running_kubelet_win(root: Path) -> None:
    (root / "proc/77/cmdline").write_text(
        f"kubelet\0--config=/{KUBELET}/config.yaml\0--cpu-manager-policy=none\0"
    )
    assert "cpu-manager-state-policy-mismatch" in codes(root)


def test_a_kubelet_folder_that_may_not_be_read_is_unknown_and_not_wrong(tmp_path: Path) -> None:
    write(tmp_path, two_nodes())
    seen = found(tmp_path)
    assert {check.status for check in seen.checks} == {"ok", "unknown"}
    assert seen.findings == []


def test_the_screen_is_worst_first_and_no_wider_than_the_room(root: Path) -> None:
    (root / KUBELET / "pod-resources/kubelet.sock").unlink()
    (root / "proc/77/comm").unlink()
    seen = found(root)
    order = [STATUSES.index(check.status) for check in seen.checks]
    assert order == sorted(order)
    for lang in LANGUAGES:
        for room in (60, 100):
            lines = list(checkup.page(seen.node, seen.checks, room, lang))
            assert all(line_width(line) <= room for line in lines)
            assert "node7" in plain(lines[0])


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_json_has_every_check_and_every_finding(root: Path, lang: Lang) -> None:
    (root / KUBELET / "pod-resources/kubelet.sock").unlink()
    seen = found(root)
    document: dict[str, Any] = json.loads(checkup.as_json(seen.node, seen.checks, lang))
    assert [check["name"] for check in document["checks"]] == [check.name for check in seen.checks]
    assert [one["code"] for one in document["findings"]] == ["podresources-missing"]
    assert document["checks"][0] == {
        "name": "podresources",
        "status": "warning",
        "text": f"/{KUBELET}/pod-resources/kubelet.sock",
        "findings": ["podresources-missing"],
    }


def test_a_real_socket_counts(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = root / KUBELET / "pod-resources" / "kubelet.sock"
    path.unlink()
    # From here its name is short enough: that of a socket has at most 107 characters.
    monkeypatch.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path.name)
        assert status(root, "podresources") == "ok"
