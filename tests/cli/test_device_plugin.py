from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from numaware.cli import main
from numaware.machine import synthetic
from support import made_sysfs

PLUGIN = (
    'resources: [{name: x.io/gpu, gpus: {vendor: nvidia}}, {name: x.io/nic, pci: {class: "02"}, replicas: 2}]'
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    machine = synthetic.read("2s x 1n x 2c +gpu@0,1 +nic@1")
    nowhere = [
        msgspec.structs.replace(one, numa=None) if one.vendor == "15b3" else one for one in machine.pci
    ]
    (tmp_path / "plugin.yaml").write_text(PLUGIN)
    return made_sysfs.write(tmp_path / "machine", msgspec.structs.replace(machine, pci=tuple(nowhere)))


def show(root: Path, *more: str) -> int:
    plugin = root.parent / "plugin.yaml"
    return main(["device-plugin", "--config", str(plugin), "--root", str(root), "--no-nvml", *more])


def test_show_says_what_would_be_offered_and_where_it_lies(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(root, "--show") == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "RESOURCE   DEVICE            NUMA   PCI            DRIVER   DEVICE NODES",
        "x.io/gpu   0000:01:00.0      0      0000:01:00.0   -        /dev/nvidia0",
        "x.io/gpu   0001:01:00.0      1      0001:01:00.0   -        /dev/nvidia1",
        "x.io/nic   0001:01:01.0::0   -      0001:01:01.0   -        -",
        "x.io/nic   0001:01:01.0::1   -      0001:01:01.0   -        -",
    ]
    assert (
        err == "numaware: of 1 devices the kernel knows no NUMA node (-1): the kubelet will not align them\n"
    )


def test_show_as_json(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert show(root, "--show", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["gpusFrom"], told["nvlinks"]) == ("sysfs", [])
    gpus, nics = told["resources"]
    assert gpus["devices"][1] == {
        "id": "0001:01:00.0",
        "address": "0001:01:00.0",
        "numa": 1,
        "driver": None,
        "deviceNodes": ["/dev/nvidia1"],
        "index": "1",
    }
    assert (nics["name"], nics["replicas"], nics["devices"][0]["numa"]) == ("x.io/nic", 2, None)


def test_a_machine_without_such_devices_is_a_no(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root.parent / "plugin.yaml").write_text("resources: [{name: x.io/vf, sriov: {}}]")
    assert show(root, "--show") == 1
    assert capsys.readouterr().out == "no device of this machine is taken\n"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--json",), "numaware: --json: goes with --show\n"),
        (("--show", "--seconds", "0"), "numaware: --seconds: 0 is outside 0.1 to 3600\n"),
        (
            ("--no-metrics",),
            (
                "numaware: {root}/var/lib/kubelet/device-plugins: there is no such folder "
                "(the kubelet makes it; --device-plugins names another)\n"
            ),
        ),
    ],
)
def test_bad_usage_is_one_line(
    root: Path, more: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(root, *more) == 2
    assert capsys.readouterr().err == told.format(root=root)


def test_show_starts_without_grpc_and_web_server(root: Path) -> None:
    code = (
        "import sys; from numaware.cli import main; main(sys.argv[1:]); "
        "sys.exit(any(name in sys.modules for name in ('grpc', 'google', 'starlette', 'numpy')))"
    )
    arguments = ["device-plugin", f"--config={root.parent}/plugin.yaml", f"--root={root}", "--show"]
    assert subprocess.run([sys.executable, "-c", code, *arguments], check=False).returncode == 0
