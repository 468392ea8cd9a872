"""What is handed out, preferred and given, of machines and drivers that are made up."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaware.errors import InputError
from numaware.machine import synthetic
from numaware.machine.topology import Machine, PciDevice
from numaware.node.device_plugin.config import Config, read
from numaware.node.device_plugin.health import Announced, Fault, judged, standing
from numaware.node.device_plugin.inventory import Gpu, Resource, Slice, Survey, take_stock
from numaware.node.device_plugin.offer import Offer, RefusedError
from numaware.twin.state.alloc_response import AllocResponse, DeviceNode, Mount

MACHINE = synthetic.read("2s x 1n x 4c +gpu@0,1 +nic@0,1")
ADDRESSES = [function.address for function in MACHINE.pci if function.class_code == "030200"]
NICS = [function.address for function in MACHINE.pci if function.class_code == "020000"]
NIC_RULE = 'resources: [{name: x.io/nic, pci: {class: "02"}%s}]'


def config(text: str = "", **flags: Any) -> Config:
    found = read(text.encode() or b"{}", "plugin.yaml")
    return msgspec.structs.replace(found, flags=msgspec.convert(flags, type(found.flags)))


def cut(index: int, *profiles: str) -> Gpu:
    """A GPU that MIG has cut."""
    slices = tuple(
        Slice(f"MIG-{index}{place}", profile, place, place + 7, 0, (f"/dev/nvidia-caps/nvidia-cap{place}",))
        for place, profile in enumerate(profiles)
    )
    return Gpu(index, f"GPU-{index}", (f"/dev/nvidia{index}",), mig=True, slices=slices)


def survey(*gpus: Gpu, **more: Any) -> Survey:
    return Survey(MACHINE, gpus=dict(zip(ADDRESSES, gpus, strict=False)), **more)


WHOLE = survey(Gpu(0, "GPU-a", ("/dev/nvidia0",)), Gpu(1, "GPU-b", ("/dev/nvidia1",)))


def offer(wanted: Config, seen: Survey) -> Offer:
    (resource,) = take_stock(wanted, seen).values()
    announced = judged({}, resource, seen.machine)
    return Offer.of(resource.rule, announced, seen, wanted.flags)


# What there is


def test_gpus_go_by_uuid_and_lie_where_sysfs_says() -> None:
    (resource,) = take_stock(Config(), WHOLE).values()
    assert resource.name == "nvidia.com/gpu"
    assert [(unit.id, unit.numa) for unit in resource.units.values()] == [("GPU-a", 0), ("GPU-b", 1)]
    assert not resource.shared


def test_without_a_driver_that_tells_they_go_by_address() -> None:
    (resource,) = take_stock(Config(), survey(Gpu(0), Gpu(1))).values()
    assert [*resource.units] == ADDRESSES
    assert [unit.visible for unit in resource.units.values()] == ["0", "1"]


def test_a_device_on_no_numa_node_has_none() -> None:
    machine = Machine(pci=(PciDevice("0000:01:00.0", "020000", "15b3", "101d"),))
    one = offer(config(NIC_RULE % ""), Survey(machine))
    assert one.listed() == (("0000:01:00.0", True, None),)


@pytest.mark.parametrize(
    ("strategy", "gpus", "expected"),
    [
        ("none", [cut(0, "1g.10gb"), Gpu(1, "GPU-1")], {"nvidia.com/gpu": [("GPU-0", 0), ("GPU-1", 1)]}),
        (
            "single",
            [cut(0, "1g.10gb", "1g.10gb"), cut(1, "1g.10gb")],
            {"nvidia.com/gpu": [("MIG-00", 0), ("MIG-01", 0), ("MIG-10", 1)]},
        ),
        ("single", [Gpu(0, "GPU-0"), Gpu(1, "GPU-1")], {"nvidia.com/gpu": [("GPU-0", 0), ("GPU-1", 1)]}),
        (
            "mixed",
            [cut(0, "1g.10gb+me", "3g.40gb"), Gpu(1, "GPU-1")],
            {
                "nvidia.com/mig-1g.10gb.me": [("MIG-00", 0)],
                "nvidia.com/mig-3g.40gb": [("MIG-01", 0)],
                "nvidia.com/gpu": [("GPU-1", 1)],
            },
        ),
    ],
)
def test_slices_are_offered_as_the_strategy_says_on_the_numa_node_of_their_gpu(
    strategy: str, gpus: list[Gpu], expected: dict[str, list[tuple[str, int]]]
) -> None:
    stock = take_stock(config(migStrategy=strategy), survey(*gpus))
    assert {
        name: [(unit.id, unit.numa) for unit in resource.units.values()] for name, resource in stock.items()
    } == expected


@pytest.mark.parametrize(
    ("gpus", "problem"),
    [
        ([cut(0, "1g.10gb"), Gpu(1, "GPU-1")], "MIG is on for some GPUs of this node and off for others"),
        ([cut(0, "1g.10gb"), cut(1, "3g.40gb")], "slices differ: 1g.10gb, 3g.40gb"),
    ],
)
def test_slices_of_many_kinds_under_one_name_are_refused(gpus: list[Gpu], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        take_stock(config(migStrategy="single"), survey(*gpus))


def test_replicas_are_ids_of_their_own_and_no_other_id_is_taken_for_one() -> None:
    (resource,) = take_stock(config(NIC_RULE % ", replicas: 2"), WHOLE).values()
    ids = [name for name, _ in resource.ids()]
    assert ids == [f"{address}::{number}" for address in NICS for number in (0, 1)]
    assert [resource.unit(name).address for name in ids] == [NICS[0], NICS[0], NICS[1], NICS[1]]
    for wrong in (
        NICS[0],
        f"{NICS[0]}::2",
        f"{NICS[0]}::",
        f"{NICS[0]}::01",
        f"{NICS[0]}::-1",
        f"{NICS[0]}::²",
    ):
        with pytest.raises(KeyError):
            resource.unit(wrong)


# What is preferred


@given(st.data())
def test_replicas_are_spread_as_evenly_as_what_is_free_allows(data: st.DataObject) -> None:
    cards = data.draw(st.integers(1, 4))
    replicas = data.draw(st.integers(2, 5))
    machine = synthetic.read("1s x 1n x 4c +nic@" + ",".join("0" * cards))
    one = offer(config(NIC_RULE % f", replicas: {replicas}"), Survey(machine))
    everything = [device.id for device in one.listed()]
    held: set[str] = set()
    while len(held) < len(everything):
        free = sorted({*everything} - held)
        size = data.draw(st.integers(1, min(3, len(free))))
        chosen = one.preferred(free, (), size)
        assert len(chosen) == size
        assert {*chosen} <= {*free}
        held |= {*chosen}
        loads = Counter(name.partition("::")[0] for name in held)
        assert max(loads.values()) - min(loads[card] for card in one.resource.units) <= 1


def test_slices_are_spread_over_gpus_and_what_must_be_in_is_in() -> None:
    one = offer(config(migStrategy="single"), survey(cut(0, "1g", "1g", "1g"), cut(1, "1g", "1g", "1g")))
    ids = [device.id for device in one.listed()]
    assert one.preferred(ids, (), 2) == ("MIG-00", "MIG-10")
    assert one.preferred(ids, ("MIG-11",), 2) == ("MIG-00", "MIG-11")
    # Two of the first GPU are held by somebody.
    assert one.preferred(["MIG-02", "MIG-10", "MIG-11", "MIG-12"], (), 2) == ("MIG-10", "MIG-11")


def test_gpus_with_nvlinks_between_them_are_preferred_among_equals() -> None:
    machine = synthetic.read("1s x 1n x 4c +gpu@0a,0a,0a,0a")
    gpus = [function.address for function in machine.pci if function.class_code == "030200"]
    seen = Survey(
        machine,
        gpus={address: Gpu(index, f"GPU-{index}") for index, address in enumerate(gpus)},
        nvlinks={frozenset((gpus[1], gpus[3])): 4},
    )
    one = offer(Config(), seen)
    assert one.preferred([f"GPU-{number}" for number in range(4)], (), 2) == ("GPU-1", "GPU-3")


@pytest.mark.parametrize("text", ["", ", replicas: 2"])
def test_a_wish_that_cannot_be_is_refused(text: str) -> None:
    one = offer(config(NIC_RULE % text), WHOLE)
    ids = [device.id for device in one.listed()]
    with pytest.raises(RefusedError, match=r"x.io/nic: other is no device of this resource") as error:
        one.preferred([*ids, "other"], (), 1)
    assert error.value.cause == "impossible"
    with pytest.raises(RefusedError, match=f"{len(ids) + 1} devices, 0 of them set, cannot be taken"):
        one.preferred(ids, (), len(ids) + 1)


# What a container is given


GPU_NODES = tuple(
    DeviceNode(f"/dev/{name}", f"/run/driver/dev/{name}", "rw") for name in ("nvidiactl", "nvidia0")
)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, AllocResponse({"NVIDIA_VISIBLE_DEVICES": "GPU-a"})),
        ({"deviceIDStrategy": "index"}, AllocResponse({"NVIDIA_VISIBLE_DEVICES": "0"})),
        (
            {"deviceListStrategy": "volume-mounts"},
            AllocResponse(
                {"NVIDIA_VISIBLE_DEVICES": "/var/run/nvidia-container-devices"},
                (Mount("/var/run/nvidia-container-devices/GPU-a", "/dev/null"),),
            ),
        ),
        ({"deviceListStrategy": "cdi-cri"}, AllocResponse(cdi_devices=("nvidia.com/gpu=GPU-a",))),
        (
            {"deviceListStrategy": ["cdi-annotations", "envvar"]},
            AllocResponse(
                {"NVIDIA_VISIBLE_DEVICES": "GPU-a"},
                annotations={"of the resource": "nvidia.com/gpu=GPU-a"},
            ),
        ),
        (
            {"passDeviceSpecs": True},
            AllocResponse({"NVIDIA_VISIBLE_DEVICES": "GPU-a"}, devices=GPU_NODES),
        ),
    ],
    ids=str,
)
def test_a_gpu_comes_as_the_flags_say(flags: dict[str, Any], expected: AllocResponse) -> None:
    seen = msgspec.structs.replace(WHOLE, control_nodes=("/dev/nvidiactl",), dev_root="/run/driver")
    found = offer(config(plugin=flags), seen).allocated(["GPU-a"])
    if expected.annotations:
        (key,) = found.annotations
        assert key.startswith("cdi.k8s.io/numaware_")
        assert len(key.partition("/")[2]) <= 63
        expected = msgspec.structs.replace(expected, annotations=dict.fromkeys([key], "nvidia.com/gpu=GPU-a"))
    assert found == expected


def test_another_device_comes_with_its_nodes_and_whatever_its_rule_adds() -> None:
    more = ", replicas: 2, env: NIC, cdi: x.io/nic, devices: [/dev/vhost-net], mounts: [{hostPath: /opt/nic}]"
    seen = msgspec.structs.replace(WHOLE, nodes={NICS[0]: ("/dev/infiniband/uverbs0",)})
    found = offer(config(NIC_RULE % more), seen).allocated([f"{NICS[0]}::1", f"{NICS[0]}::0"])
    assert found == AllocResponse(
        {"NIC": NICS[0]},
        (Mount("/opt/nic", "/opt/nic", read_only=True),),
        (
            DeviceNode("/dev/infiniband/uverbs0", "/dev/infiniband/uverbs0", "rw"),
            DeviceNode("/dev/vhost-net", "/dev/vhost-net", "rw"),
        ),
        {},
        (f"x.io/nic={NICS[0]}",),
    )
    assert offer(config(NIC_RULE % ", deviceNodes: false"), seen).allocated(NICS) == AllocResponse(
        {"PCIDEVICE_X_IO_NIC": ",".join(NICS)}
    )


def test_nothing_is_given_if_a_single_device_is_unknown_or_unhealthy() -> None:
    (resource,) = take_stock(Config(), WHOLE).values()
    announced = judged({}, resource, MACHINE, [Fault(ADDRESSES[1], 79)])
    one = Offer.of(resource.rule, announced, WHOLE, Config().flags)
    assert [device.healthy for device in one.listed()] == [True, False]
    for ids, cause, message in (
        (["GPU-a", "GPU-c\n"], "unknown", "nvidia.com/gpu has no device GPU-c\N{REPLACEMENT CHARACTER}"),
        (["GPU-a", "GPU-b"], "unhealthy", "nvidia.com/gpu: GPU-b cannot be handed out: Xid 79"),
    ):
        with pytest.raises(RefusedError) as error:
            one.allocated(ids)
        assert (error.value.cause, str(error.value)) == (cause, message)


# What is wrong with it


def problems(announced: dict[str, Announced]) -> dict[str, str]:
    return {name: one.problem for name, one in announced.items()}


def nics(*functions: PciDevice) -> tuple[Resource | None, Machine]:
    machine = Machine(pci=functions)
    return take_stock(config(NIC_RULE % ""), Survey(machine)).get("x.io/nic"), machine


def test_a_device_that_vanishes_loses_its_driver_or_comes_back_is_judged_so() -> None:
    card = PciDevice("0000:01:00.0", "020000", "15b3", "101d", "mlx5_core", 0)
    bare = msgspec.structs.replace(card, driver=None)
    other = PciDevice("0000:02:00.0", "020000", "15b3", "101d", "mlx5_core", 0)
    seen = judged({}, *nics(card, other))
    assert problems(seen) == {"0000:01:00.0": "", "0000:02:00.0": ""}
    seen = judged(seen, *nics(bare))
    assert problems(seen) == {"0000:01:00.0": "lost its driver", "0000:02:00.0": "vanished"}
    assert problems(judged(seen, *nics(bare))) == problems(seen), "looked at again, it is the same"
    assert problems(judged(seen, *nics(card, other))) == {"0000:01:00.0": "", "0000:02:00.0": ""}
    assert problems(judged(seen, None, Machine())) == dict.fromkeys(seen, "vanished")


def test_a_device_that_is_bound_to_another_driver_than_its_rule_names_is_not_handed_out() -> None:
    card = PciDevice("0000:01:00.0", "020000", "15b3", "101d", "mlx5_core", 0)
    wanted = config("resources: [{name: x.io/nic, pci: {driver: mlx5_core}}]")
    before = take_stock(wanted, Survey(Machine(pci=(card,))))["x.io/nic"]
    machine = Machine(pci=(msgspec.structs.replace(card, driver="vfio-pci"),))
    assert not take_stock(wanted, Survey(machine)).get("x.io/nic", before).units
    found = judged(judged({}, before, machine), None, machine)
    assert problems(found) == {"0000:01:00.0": "bound to vfio-pci now"}


def test_an_error_of_a_gpu_counts_and_one_of_its_programs_does_not() -> None:
    (resource,) = take_stock(config(migStrategy="single"), survey(cut(0, "1g", "1g"), cut(1, "1g"))).values()
    slice_error = Fault(ADDRESSES[0], 79, gpu_instance=8)
    assert problems(judged({}, resource, MACHINE, [slice_error])) == {
        "MIG-00": "",
        "MIG-01": "Xid 79",
        "MIG-10": "",
    }
    whole = Fault(ADDRESSES[0], 95)
    assert problems(judged({}, resource, MACHINE, [whole])) == {
        "MIG-00": "Xid 95",
        "MIG-01": "Xid 95",
        "MIG-10": "",
    }
    program = Fault(ADDRESSES[0], 31)
    assert set(problems(judged({}, resource, MACHINE, [program])).values()) == {""}


def test_an_error_of_a_gpu_is_over_when_it_was_repaired_and_not_by_waiting() -> None:
    fault = Fault("0000:01:00.0", 79)
    function = PciDevice(fault.address, "030200", "10de", "2330", "nvidia", 0)
    well = Survey(Machine(pci=(function,)), gpus={fault.address: Gpu(0)})
    unbound = msgspec.structs.replace(function, driver=None)
    assert standing({fault: False}, well) == {fault: False}
    for repaired in (
        Survey(Machine()),
        Survey(Machine(pci=(unbound,))),
        msgspec.structs.replace(well, gpus={fault.address: Gpu(0, repair=True)}),
    ):
        under = standing({fault: False}, repaired)
        assert under == {fault: True}
        assert standing(under, repaired) == {fault: True}
        # Who cannot be asked says nothing.
        assert standing(under, msgspec.structs.replace(well, driver_problem="GPU is lost")) == {fault: True}
        assert standing(under, well) == {}


def test_a_gpu_that_its_driver_wants_repaired_is_not_handed_out() -> None:
    (resource,) = take_stock(Config(), WHOLE).values()
    found = problems(judged({}, resource, MACHINE, (), ADDRESSES[:1]))
    assert sorted(found.values()) == ["", "has to be drained or reset, its driver says"]
