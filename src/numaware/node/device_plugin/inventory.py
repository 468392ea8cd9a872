"""From what a look at the machine has shown to what there is to hand out: resources, their devices, and where each lies.

A device goes by the UUID that NVIDIA's driver gives it, any other by its PCI address. Its NUMA node is that of its function in
sysfs, for the slices of a GPU (MIG) that of the GPU; where the kernel says -1 there is none, and none is made up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import msgspec

from numaware.errors import InputError
from numaware.machine.topology import Machine, PciDevice
from numaware.node.device_plugin.config import NVIDIA, Config, Flags, ResourceRule

# A GPU that is passed through to a virtual machine is no longer NVIDIA's driver's; a sandbox may show no driver at all.
NVIDIA_DRIVERS = ("nvidia", None)
_REPLICA = "::"
_MIG_RESOURCE = "nvidia.com/mig-"


class Slice(msgspec.Struct, frozen=True):
    """A part of a GPU that MIG has cut: `profile` such as 1g.10gb, the numbers of its two instances, its device nodes."""

    uuid: str
    profile: str
    place: int
    gpu_instance: int = 0
    compute_instance: int = 0
    nodes: tuple[str, ...] = ()


class Gpu(msgspec.Struct, frozen=True):
    """What the driver says of a GPU beyond its PCI function; `index` is its place on the bus among NVIDIA's.

    `repair`: it says that the GPU has to be drained or reset, or its machine booted, before more is run on it.
    """

    index: int
    uuid: str = ""
    nodes: tuple[str, ...] = ()
    mig: bool = False
    slices: tuple[Slice, ...] = ()
    repair: bool = False


class Survey(msgspec.Struct, frozen=True):
    """One look at the machine. What is about functions goes by address; `nodes` are device nodes.

    `control_nodes` are those of NVIDIA's driver that every GPU needs, `dev_root` is where they are on the host. With a
    `driver_problem` nothing is known of NVIDIA's GPUs, neither that they are there nor that they are gone.
    """

    machine: Machine
    nodes: Mapping[str, tuple[str, ...]] = {}
    gpus: Mapping[str, Gpu] = {}
    nvlinks: Mapping[frozenset[str], int] = {}
    control_nodes: tuple[str, ...] = ()
    dev_root: str = "/"
    driver_problem: str = ""


class Unit(msgspec.Struct, frozen=True):
    """One device, or one slice of one. `visible` and `index` are its names for NVIDIA's runtime, if it is one of theirs."""

    id: str
    address: str
    numa: int | None = None
    nodes: tuple[str, ...] = ()
    driver: str | None = None
    visible: str = ""
    index: str = ""
    part: Slice | None = None


class Resource(msgspec.Struct, frozen=True):
    """What is announced under one name: units by id, each as many times as the rule has replicas."""

    rule: ResourceRule
    units: Mapping[str, Unit]

    @property
    def name(self) -> str:
        return self.rule.name

    @property
    def shared(self) -> bool:
        """Whether several of what is handed out are the same device underneath."""
        return self.rule.replicas > 1 or any(unit.part for unit in self.units.values())

    def ids(self) -> Iterator[tuple[str, Unit]]:
        """Each id as the kubelet knows it."""
        for unit in self.units.values():
            if self.rule.replicas == 1:
                yield unit.id, unit
            for number in range(self.rule.replicas if self.rule.replicas > 1 else 0):
                yield f"{unit.id}{_REPLICA}{number}", unit

    def unit(self, announced: str) -> Unit:
        """The unit behind an announced id; a KeyError for one that is not announced."""
        name, _, number = announced.partition(_REPLICA)
        unit = self.units[name]
        most = self.rule.replicas
        if (
            number != ""
            if most == 1
            else not (number.isdecimal() and f"{int(number)}" == number and int(number) < most)
        ):
            raise KeyError(announced)
        return unit


def take_stock(config: Config, survey: Survey) -> dict[str, Resource]:
    """The resources of this machine by name, in the order of the file; one for each profile of slices after its GPUs."""
    stock: dict[str, Resource] = {}
    for rule in config.resources:
        selector = rule.selector
        functions = [function for function in survey.machine.pci if selector.takes(function)]
        units: dict[str, list[Unit]] = defaultdict(list)
        if rule.gpus is None:
            units[rule.name] = [_function(function, survey) for function in functions]
        else:
            gpus = [(function, survey.gpus.get(function.address)) for function in functions]
            _check_single(config.flags, [gpu for _, gpu in gpus if gpu is not None])
            for function, gpu in gpus:
                for name, unit in _gpu_units(function, gpu, rule.name, config.flags, survey):
                    units[name].append(unit)
        for name, found in units.items():
            of_name = rule if name == rule.name else ResourceRule(name, rule.gpus)
            stock[name] = Resource(
                of_name, {unit.id: unit for unit in sorted(found, key=lambda unit: unit.id)}
            )
    return stock


def _function(function: PciDevice, survey: Survey) -> Unit:
    return Unit(
        function.address,
        function.address,
        function.numa,
        survey.nodes.get(function.address, ()),
        function.driver,
    )


def _gpu_units(
    function: PciDevice, gpu: Gpu | None, name: str, flags: Flags, survey: Survey
) -> Iterator[tuple[str, Unit]]:
    """What a GPU is handed out as, with the name of the resource: itself, or its slices."""
    plain = _function(function, survey)
    if function.vendor != NVIDIA or function.driver not in NVIDIA_DRIVERS:
        yield name, plain
        return
    if gpu is None:
        # Fallen off the bus: its driver no longer lists it.
        return
    if flags.mig_strategy == "none" or not gpu.mig:
        whole = msgspec.structs.replace(
            plain,
            id=gpu.uuid or plain.id,
            nodes=gpu.nodes,
            visible=gpu.uuid or str(gpu.index),
            index=str(gpu.index),
        )
        yield name, whole
        return
    for part in gpu.slices:
        of_profile = _MIG_RESOURCE + part.profile.replace("+", ".")
        yield (
            name if flags.mig_strategy == "single" else of_profile,
            msgspec.structs.replace(
                plain,
                id=part.uuid,
                nodes=(*gpu.nodes, *part.nodes),
                visible=part.uuid,
                index=f"{gpu.index}:{part.place}",
                part=part,
            ),
        )


def _check_single(flags: Flags, gpus: list[Gpu]) -> None:
    """With `single` a name stands for one kind of slice: all GPUs are cut, and all in the same way, or none is."""
    if flags.mig_strategy != "single":
        return
    profiles = {part.profile for gpu in gpus for part in gpu.slices}
    if len({gpu.mig for gpu in gpus}) > 1:
        raise InputError("migStrategy single", "MIG is on for some GPUs of this node and off for others")
    if len(profiles) > 1:
        hint = "migStrategy mixed gives each its own resource"
        raise InputError("migStrategy single", f"slices differ: {', '.join(sorted(profiles))}", hint=hint)
