"""Looks at made machines, with and without NVIDIA's library (a fake one)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from numaware.machine import synthetic
from numaware.machine.topology import Machine
from numaware.node.device_plugin import surveyor as module
from numaware.node.device_plugin.config import Config, Flags, read
from numaware.node.device_plugin.health import Fault
from numaware.node.device_plugin.inventory import take_stock
from numaware.node.device_plugin.nvml import Nvml, NvmlError
from numaware.node.device_plugin.surveyor import Surveyor, driver_problem
from support import made_sysfs
from support.fake_nvml import NO_INSTANCE, FakeGpu, FakeNvml, FakeSlice

SPEC = "2s x 1n x 2c +gpu@0,1 +nic@1"


def made(root: Path, spec: str = SPEC) -> tuple[Machine, list[str]]:
    machine = synthetic.read(spec)
    drivers = {"030200": "nvidia", "020000": "mlx5_core"}
    pci = tuple(msgspec.structs.replace(one, driver=drivers.get(one.class_code)) for one in machine.pci)
    machine = msgspec.structs.replace(machine, pci=pci)
    made_sysfs.write(root, machine)
    return machine, [one.address for one in pci if one.class_code == "030200"]


def listed_in_proc(root: Path, addresses: list[str]) -> None:
    for number, address in enumerate(addresses):
        path = root / f"proc/driver/nvidia/gpus/{address}/information"
        path.parent.mkdir(parents=True)
        path.write_text(f"GPU UUID: GPU-0000000{number}\nDevice Minor: {number}\n", encoding="utf-8")


def gpus_of(addresses: list[str]) -> list[FakeGpu]:
    return [
        FakeGpu(f"0000{address.upper()}", f"GPU-0000000{number}", number)
        for number, address in enumerate(addresses)
    ]


def use(monkeypatch: pytest.MonkeyPatch, nvml: FakeNvml | None) -> None:
    monkeypatch.setattr(module, "load", lambda: nvml)


def test_the_library_and_the_kernel_alone_say_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, addresses = made(tmp_path)
    listed_in_proc(tmp_path, addresses)
    use(monkeypatch, FakeNvml(*gpus_of(addresses)))
    found = []
    for nvml in (True, False):
        surveyor = Surveyor(Config(), str(tmp_path), nvml=nvml)
        found.append(take_stock(Config(), surveyor.look()))
        assert surveyor.source == ("nvml" if nvml else "sysfs")
        surveyor.close()
    assert found[0] == found[1]
    units = found[0]["nvidia.com/gpu"].units
    assert [(unit.id, unit.numa, unit.nodes) for unit in units.values()] == [
        ("GPU-00000000", 0, ("/dev/nvidia0",)),
        ("GPU-00000001", 1, ("/dev/nvidia1",)),
    ]


def test_without_the_extra_the_kernel_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, addresses = made(tmp_path)
    use(monkeypatch, None)
    surveyor = Surveyor(Config(), str(tmp_path))
    assert [*surveyor.look().gpus] == addresses
    assert surveyor.faults() == []


def test_a_library_without_a_driver_is_no_trouble_and_one_that_fails_beside_a_driver_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, addresses = made(tmp_path)
    use(monkeypatch, FakeNvml(broken="Driver Not Loaded"))
    assert [*Surveyor(Config(), str(tmp_path)).look().gpus] == addresses
    listed_in_proc(tmp_path, addresses)
    seen = Surveyor(Config(), str(tmp_path)).look()
    assert (seen.driver_problem, seen.gpus) == ("NVML does not start: Driver Not Loaded", {})
    assert take_stock(Config(), seen) == {}


def test_a_driver_that_breaks_later_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, addresses = made(tmp_path)
    nvml = FakeNvml(*gpus_of(addresses))
    use(monkeypatch, nvml)
    surveyor = Surveyor(Config(), str(tmp_path))
    surveyor.look()
    nvml.broken = "GPU is lost"
    assert surveyor.look().driver_problem == "NVML cannot list the GPUs: GPU is lost"


def test_a_driver_that_was_loaded_anew_is_asked_anew_and_never_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, addresses = made(tmp_path)
    nvml = FakeNvml(*gpus_of(addresses))
    use(monkeypatch, nvml)
    surveyor = Surveyor(Config(), str(tmp_path))
    before = surveyor.look()
    nvml.stale = True
    assert surveyor.look().driver_problem == "NVML cannot list the GPUs: Uninitialized"
    assert surveyor.faults() == []
    nvml.broken = "Driver Not Loaded"
    # By address they would be other devices than by UUID.
    assert surveyor.look().driver_problem == "NVML does not start: Driver Not Loaded"
    assert surveyor.source == "nvml"
    nvml.broken = ""
    assert surveyor.look() == before


@pytest.mark.parametrize(("action", "repair"), [(0, False), (1, True), (4, True), (None, False)])
def test_what_the_driver_wants_done_with_a_gpu_is_heard(action: int | None, repair: bool) -> None:
    gpu = FakeGpu("00000000:3B:00.0", "GPU-a", 0, action=action)
    assert Nvml(FakeNvml(gpu)).gpus({}).gpus["0000:3b:00.0"].repair is repair


def test_only_gpus_that_a_resource_may_take_are_looked_up_in_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path)
    use(monkeypatch, FakeNvml(broken="never asked"))
    config = read(b'resources: [{name: x.io/nic, pci: {class: "02"}}]', "p")
    assert [*take_stock(config, Surveyor(config, str(tmp_path)).look())] == ["x.io/nic"]


def test_slices_have_their_nodes_and_links_are_counted() -> None:
    cut = FakeGpu(
        "00000000:3B:00.0",
        "GPU-a",
        2,
        mig=True,
        slices=[FakeSlice("MIG-x", "NVIDIA H100 MIG 1g.10gb", 7), None, FakeSlice("MIG-y", "odd", 8, 1)],
        links=["00000000:3C:00.0", "", "00000000:A0:00.0"],
    )
    other = FakeGpu("00000000:3C:00.0", "GPU-b", 0, mig=False, links=["00000000:3B:00.0", "00000000:A0:00.0"])
    third = FakeGpu("00010000:3D:00.0", "GPU-c", 1)
    linked = Nvml(FakeNvml(cut, other, third)).gpus({(2, 7, None): "/dev/cap1", (2, 7, 0): "/dev/cap2"})
    first = linked.gpus["0000:3b:00.0"]
    assert [(part.uuid, part.profile, part.place, part.nodes) for part in first.slices] == [
        ("MIG-x", "1g.10gb", 0, ("/dev/cap1", "/dev/cap2")),
        ("MIG-y", "unknown", 2, ()),
    ]
    assert [*linked.gpus] == ["0000:3b:00.0", "0000:3c:00.0", "10000:3d:00.0"]
    # One from one to the other, and one each to a switch.
    assert linked.nvlinks == {frozenset(("0000:3b:00.0", "0000:3c:00.0")): 2}


def test_critical_errors_come_with_the_slice_they_are_of() -> None:
    gpu = FakeGpu("00000000:3B:00.0", "GPU-a", 0, mig=True)
    module_ = FakeNvml(gpu, FakeGpu("00000000:3C:00.0", "GPU-b", 1))
    nvml = Nvml(module_)
    assert list(nvml.faults()) == []
    module_.events = [(gpu, 79, NO_INSTANCE), (gpu, 95, 7)]
    assert list(nvml.faults()) == [Fault("0000:3b:00.0", 79), Fault("0000:3b:00.0", 95, 7)]
    module_.deaf = True
    with pytest.raises(NvmlError, match="NVML cannot wait for errors: no events"):
        list(nvml.faults())


def test_a_gpu_that_reports_errors_without_end_is_heard_in_between() -> None:
    gpu = FakeGpu("00000000:3B:00.0", "GPU-a", 0)
    module_ = FakeNvml(gpu)
    module_.events = [(gpu, 79, NO_INSTANCE)] * 1000
    assert set(Nvml(module_).faults()) == {Fault("0000:3b:00.0", 79)}
    assert module_.events


@pytest.mark.parametrize("call", ["nvmlDeviceGetCount", "nvmlEventSetCreate", "nvmlDeviceGetPciInfo"])
def test_whatever_fails_while_errors_are_heard_is_trouble_of_the_driver(
    monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """A GPU that has fallen off the bus reports that, and then fails every question: the plugin must outlive it."""
    gpu = FakeGpu("00000000:3B:00.0", "GPU-a", 0, mig=True)
    module_ = FakeNvml(gpu)
    module_.events = [(gpu, 79, NO_INSTANCE)]
    nvml = Nvml(module_)

    def lost(*_: object) -> None:
        raise module_.NVMLError("GPU is lost")

    monkeypatch.setattr(module_, call, lost)
    with pytest.raises(NvmlError, match="GPU is lost"):
        list(nvml.faults())


def test_a_driver_root_without_the_library_is_told(tmp_path: Path) -> None:
    with pytest.raises(NvmlError, match=r"libnvidia-ml.so.1 is not below it"):
        Nvml(FakeNvml(), str(tmp_path))
    library = tmp_path / "usr/lib64/libnvidia-ml.so.1"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"no library")
    with pytest.raises(NvmlError, match=r"libnvidia-ml.so.1: .*(short|header)"):
        Nvml(FakeNvml(), str(tmp_path))


def test_the_drivers_own_dev_is_found_below_its_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path)
    use(monkeypatch, None)
    config = Config(flags=Flags(nvidia_driver_root="/run/driver"))
    assert Surveyor(config, str(tmp_path)).look().dev_root == "/"
    for name in ("dev/nvidiactl", "run/driver/dev/nvidiactl", "run/driver/dev/nvidia-uvm"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    seen = Surveyor(config, str(tmp_path)).look()
    assert (seen.dev_root, seen.control_nodes) == ("/run/driver", ("/dev/nvidiactl", "/dev/nvidia-uvm"))
    assert Surveyor(Config(), str(tmp_path)).look().control_nodes == ("/dev/nvidiactl",)


def test_a_node_without_the_gpus_that_are_asked_for_by_name_has_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, "1s x 1n x 2c")
    use(monkeypatch, None)
    seen = Surveyor(Config(), str(tmp_path)).look()
    assert driver_problem(Config(), seen) == "this node has no GPU of NVIDIA"
    assert driver_problem(read(b"resources: [{name: x.io/gpu, gpus: {}}]", "p"), seen) == ""
