"""Device nodes of PCI functions, and what NVIDIA's driver writes into /proc, from files as kernels write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from numaware.machine.nvidia_driver import DriverGpu, read_gpus, read_mig_nodes
from numaware.machine.sysfs.device_nodes import read_device_nodes
from numaware.machine.sysfs.pci import read_pci
from numaware.machine.sysfs.source import Source
from numaware.machine.tree import FolderTree

ADDRESS = "0000:3b:00.0"
FOLDER = f"sys/devices/pci0000:3a/{ADDRESS}"


def source(root: Path, **files: str) -> Source:
    for name, text in {f"{FOLDER}/class": "0x020000\n", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    link = root / "sys/bus/pci/devices" / ADDRESS
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(f"../../../devices/pci0000:3a/{ADDRESS}")
    return Source(FolderTree(str(root), str(root)))


def nodes(found: Source) -> tuple[str, ...]:
    (function,) = read_pci(found)
    return read_device_nodes(found, function)


def test_every_node_that_the_kernel_names_below_a_function_is_found(tmp_path: Path) -> None:
    files = {
        f"{FOLDER}/drm/card1/uevent": "MAJOR=226\nMINOR=1\nDEVNAME=dri/card1\nDEVTYPE=drm_minor\n",
        f"{FOLDER}/drm/renderD129/uevent": "DEVNAME=dri/renderD129\n",
        f"{FOLDER}/nvme/nvme0/nvme0n1/uevent": "DEVNAME=nvme0n1\n",
        f"{FOLDER}/nvme/nvme0/uevent": "DEVNAME=nvme0\n",
        # Without a node, of another function, and of nobody's choosing.
        f"{FOLDER}/net/eth0/uevent": "INTERFACE=eth0\n",
        f"{FOLDER}/0000:3c:00.0/drm/card2/uevent": "DEVNAME=dri/card2\n",
        f"{FOLDER}/uio/uio0/uevent": "DEVNAME=../../etc/shadow\n",
        f"{FOLDER}/uevent": "DEVNAME=own\n",
    }
    expected = ("/dev/dri/card1", "/dev/dri/renderD129", "/dev/nvme0", "/dev/nvme0n1")
    assert nodes(source(tmp_path, **files)) == expected


def test_a_function_of_vfio_is_used_through_its_group(tmp_path: Path) -> None:
    found = source(tmp_path)
    assert nodes(found) == ()
    (tmp_path / FOLDER / "driver").symlink_to("../../../bus/pci/drivers/vfio-pci")
    assert nodes(found) == ()
    (tmp_path / FOLDER / "iommu_group").symlink_to("../../../kernel/iommu_groups/17")
    assert nodes(found) == ("/dev/vfio/vfio", "/dev/vfio/17")


def test_a_function_that_is_gone_has_none(tmp_path: Path) -> None:
    found = source(tmp_path)
    (function,) = read_pci(found)
    (tmp_path / "sys/bus/pci/devices" / ADDRESS).unlink()
    assert read_device_nodes(Source(FolderTree(str(tmp_path), "")), function) == ()


INFORMATION = """Model:           NVIDIA H200
IRQ:             220
GPU UUID:        GPU-0f6e1f7c-2b43-9a3e-5c0d-1f2e3d4c5b6a
Video BIOS:      96.00.a5.00.01
Bus Type:        PCIe
Device Minor:    3
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (INFORMATION, DriverGpu("GPU-0f6e1f7c-2b43-9a3e-5c0d-1f2e3d4c5b6a", 3)),
        ("GPU UUID: \t GPU-????????-????\n", DriverGpu()),
        ("", DriverGpu()),
    ],
)
def test_the_driver_names_its_gpus(tmp_path: Path, text: str, expected: DriverGpu) -> None:
    found = source(tmp_path, **{"proc/driver/nvidia/gpus/0000:3B:00.0/information": text})
    assert read_gpus(found) == {"0000:3b:00.0": expected}


def test_the_nodes_of_slices_are_found(tmp_path: Path) -> None:
    text = (
        "config 1\nmonitor 2\ngpu0/gi7/access 66\ngpu0/gi7/ci0/access 67\ngpu12/gi3/ci1/access 9\nrubbish\n"
    )
    assert read_mig_nodes(source(tmp_path, **{"proc/driver/nvidia-caps/mig-minors": text})) == {
        (0, 7, None): "/dev/nvidia-caps/nvidia-cap66",
        (0, 7, 0): "/dev/nvidia-caps/nvidia-cap67",
        (12, 3, 1): "/dev/nvidia-caps/nvidia-cap9",
    }
