"""PCI addresses for the devices of sources that print none.

`nvidia-smi` counts its GPUs in the order of their PCI addresses, and names NICs by what sits on top of them
(`mlx5_0`). Where another source lists as many NVIDIA GPUs, or knows where `mlx5_0` is, the two are the same
devices, and links meet the PCI tree. What does not fit together is left apart, with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from numaware.machine.topology import Device, Machine, PciDevice

_GPU_NAME = re.compile(r"GPU(\d{1,5})", re.ASCII)
_NVIDIA = "10de"


def with_addresses(
    machines: Sequence[Machine], devices: Sequence[Device], pci: Sequence[PciDevice]
) -> tuple[tuple[Device, ...], list[str]]:
    """The merged devices with their PCI functions filled in as far as these are certain, and doubts in words."""
    # Only a source that knows no PCI at all counts by PCI order; another one would have said the address.
    nameless = {
        device.name
        for machine in machines
        if not machine.pci
        for device in machine.devices
        if device.pci is None
    }
    waiting = [device for device in devices if device.pci is None and device.name in nameless]
    addresses, doubts = _gpu_addresses(waiting, pci)
    known = {device.name: device.pci for device in devices if device.pci is not None}
    addresses.update(
        (device.name, known[device.alias])
        for device in waiting
        if device.alias is not None and device.alias in known
    )
    functions = {function.address: function for function in pci}
    return tuple(_placed(device, functions.get(addresses.get(device.name, ""))) for device in devices), doubts


def _gpu_addresses(waiting: Sequence[Device], pci: Sequence[PciDevice]) -> tuple[dict[str, str], list[str]]:
    numbers = {
        device.name: int(match[1]) for device in waiting if (match := _GPU_NAME.fullmatch(device.name))
    }
    gpus = sorted((device for device in waiting if device.name in numbers), key=lambda gpu: numbers[gpu.name])
    functions = sorted(
        (function for function in pci if _is_nvidia_gpu(function)), key=lambda function: function.address
    )
    if not gpus or not functions:
        return {}, []
    if len(gpus) != len(functions):
        return {}, [
            f"{len(gpus)} GPUs are named and {len(functions)} NVIDIA GPUs found on PCI; they are not matched"
        ]
    for gpu, function in zip(gpus, functions, strict=True):
        if None not in {gpu.numa, function.numa} and gpu.numa != function.numa:
            doubt = f"{gpu.name} is on NUMA node {gpu.numa}, but {function.address} on {function.numa}"
            return {}, [f"{doubt}; GPUs and PCI functions are not matched"]
    return {gpu.name: function.address for gpu, function in zip(gpus, functions, strict=True)}, []


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
