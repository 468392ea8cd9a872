"""PCI addresses for the devices of sources that print none, before sources are merged by name.

`nvidia-smi` counts its GPUs in the order of their PCI addresses, and says what sits on top of a NIC (`mlx5_0`).
Where the other sources list as many NVIDIA GPUs, or know where `mlx5_0` is, these are the same devices, and
links meet the PCI tree. Where they do not fit (a container sees two GPUs of eight), the numbers mean other
devices than elsewhere: they get names of their own, and a warning says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from numaware.machine.topology import Device, Machine, PciDevice

_GPU_NAME = re.compile(r"GPU(\d{1,5})", re.ASCII)
_NVIDIA = "10de"


def reconcile(machines: Sequence[tuple[str, Machine]]) -> tuple[list[tuple[str, Machine]], list[str]]:
    """The machines with addresses filled in as far as they are certain, and the doubts in words."""
    functions: dict[str, PciDevice] = {}
    places: dict[str, str] = {}
    for _, machine in machines:
        for function in machine.pci:
            functions.setdefault(function.address, function)
        for device in machine.devices:
            if device.pci is not None:
                places.setdefault(device.name, device.pci)
    reconciled = []
    doubts: list[str] = []
    for name, machine in machines:
        # A source that knows PCI would have said the address; its devices are taken as they are.
        blind = not machine.pci and any(device.pci is None for device in machine.devices)
        reconciled.append(
            (name, _with_addresses(name, machine, functions, places, doubts)) if blind else (name, machine)
        )
    return reconciled, doubts


def _with_addresses(
    name: str,
    machine: Machine,
    functions: Mapping[str, PciDevice],
    places: Mapping[str, str],
    doubts: list[str],
) -> Machine:
    gpus = sorted((device for device in machine.devices if _number(device) >= 0), key=_number)
    on_pci = [functions[address] for address in sorted(functions) if _is_nvidia_gpu(functions[address])]
    doubt = _mismatch(gpus, on_pci) if gpus and on_pci else ""
    addresses = {
        device.name: places[device.alias]
        for device in machine.devices
        if device.pci is None and device.alias is not None and device.alias in places
    }
    names: dict[str, str] = {}
    if doubt:
        doubts.append(f"{name}: {doubt}; its GPUs are kept apart from those of other sources")
        names = {gpu.name: f"{name}:{gpu.name}" for gpu in gpus if gpu.name in places}
    elif on_pci:
        addresses |= {gpu.name: function.address for gpu, function in zip(gpus, on_pci, strict=False)}
    return msgspec.structs.replace(
        machine,
        devices=tuple(
            msgspec.structs.replace(
                _placed(device, functions.get(addresses.get(device.name, ""))),
                name=names.get(device.name, device.name),
            )
            for device in machine.devices
        ),
        links=tuple(
            msgspec.structs.replace(link, a=names.get(link.a, link.a), b=names.get(link.b, link.b))
            for link in machine.links
        ),
    )


def _number(device: Device) -> int:
    """The number of a GPU that has no address yet; -1 for anything else."""
    match = _GPU_NAME.fullmatch(device.name) if device.pci is None else None
    return int(match[1]) if match else -1


def _mismatch(gpus: Sequence[Device], on_pci: Sequence[PciDevice]) -> str:
    """Why the GPUs in the order of their numbers are not the functions in the order of their addresses."""
    if len(gpus) != len(on_pci):
        return f"{len(gpus)} GPUs, but {len(on_pci)} NVIDIA GPUs on PCI"
    for gpu, function in zip(gpus, on_pci, strict=True):
        if gpu.numa is not None and function.numa is not None and gpu.numa != function.numa:
            return f"{gpu.name} is on NUMA node {gpu.numa}, but {function.address} on {function.numa}"
    return ""


def _is_nvidia_gpu(function: PciDevice) -> bool:
    return (
        function.vendor == _NVIDIA
        and function.class_code.startswith("03")
        and function.virtual_function_of is None
    )


def _placed(device: Device, function: PciDevice | None) -> Device:
    if function is None:
        return device
    return msgspec.structs.replace(
        device,
        pci=function.address,
        cpus=function.local_cpus if device.cpus is None else device.cpus,
        numa=function.numa if device.numa is None else device.numa,
    )
