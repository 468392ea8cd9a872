"""The output of `lspci -v`: PCI functions with their NUMA nodes and drivers, and the bridges above them.

    d8:00.0 3D controller: NVIDIA Corporation GP100GL [Tesla P100 PCIe 16GB] (rev a1)
            Flags: bus master, fast devsel, latency 0, IRQ 441, NUMA node 1
            Kernel driver in use: nvidia

A bridge says which bus begins below it (`Bus: primary=3a, secondary=3b`), which puts functions into a tree. Classes and makers
are words, unless `-nn` adds their numbers; words that are not known here leave the number out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from numaware.errors import InputError
from numaware.machine.cpuset import MAX_ID
from numaware.machine.textfile import read_text
from numaware.machine.topology import MANAGEMENT_VENDORS, Device, Machine, PciDevice

_HEAD = re.compile(
    r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ([^:\[]{1,80}?)(?: \[([0-9a-f]{4})\])?: (.*)",
    re.ASCII | re.IGNORECASE,
)
_NUMBERS = re.compile(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]", re.ASCII | re.IGNORECASE)
_NODE = re.compile(r"\bNUMA node (\d{1,5})\b", re.ASCII)
_BELOW = re.compile(r"\bsecondary=([0-9a-f]{2})\b", re.ASCII | re.IGNORECASE)
_DRIVER = re.compile(r"\s+Kernel driver in use: ([!-~]{1,64})")
_CLASSES = {
    "vga compatible controller": "0300",
    "3d controller": "0302",
    "display controller": "0380",
    "ethernet controller": "0200",
    "infiniband controller": "0207",
    "network controller": "0280",
    "non-volatile memory controller": "0108",
    "host bridge": "0600",
    "pci bridge": "0604",
    "processing accelerators": "1200",
    "co-processor": "0b40",
}
_MAKERS = {"NVIDIA": "10de", "Mellanox": "15b3", "Intel": "8086", "ASPEED": "1a03", "Matrox": "102b"}
_NVIDIA = "10de"


class _Block(msgspec.Struct):
    """One function's lines, as far as they are read."""

    domain: str
    function: PciDevice
    below: str = ""


def read(data: bytes, source: str = "lspci -v") -> Machine:
    """The functions by address, and the GPUs among them by the names that nvidia-smi gives."""
    blocks = list(_blocks(read_text(data, source)))
    if not blocks:
        raise InputError(source, "no PCI function found", hint="expected the output of `lspci -v`")
    bridges = {(block.domain, block.below): block.function.address for block in blocks if block.below}
    placed: dict[str, PciDevice] = {}
    for block in blocks:
        bus = block.function.address.split(":")[-2]
        parent = bridges.get((block.domain, bus))
        own = block.function.address
        placed.setdefault(
            own, msgspec.structs.replace(block.function, parent=parent if parent != own else None)
        )
    pci = tuple(placed[address] for address in sorted(placed))
    return Machine(pci=pci, devices=tuple(_gpus(pci)))


def _blocks(text: str) -> Iterator[_Block]:
    block: _Block | None = None
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head:
            if block:
                yield block
            domain = (head[1] or "0000").lower()
            block = _Block(domain, _function(f"{domain}:{head[2].lower()}", head[3], head[4], head[5]))
        elif block and line[:1].isspace():
            _add(block, line)
    if block:
        yield block


def _function(address: str, kind: str, code: str | None, name: str) -> PciDevice:
    numbers = _NUMBERS.search(name)
    maker = next((number for word, number in _MAKERS.items() if name.startswith(word)), "")
    return PciDevice(
        address,
        (code or _CLASSES.get(kind.lower(), "0000")).lower() + "00",
        numbers[1].lower() if numbers else maker,
        numbers[2].lower() if numbers else "",
    )


def _add(block: _Block, line: str) -> None:
    if (node := _NODE.search(line)) and int(node[1]) <= MAX_ID:
        block.function = msgspec.structs.replace(block.function, numa=int(node[1]))
    if driver := _DRIVER.match(line):
        block.function = msgspec.structs.replace(block.function, driver=driver[1])
    if below := _BELOW.search(line):
        block.below = below[1].lower()


def _gpus(pci: tuple[PciDevice, ...]) -> Iterator[Device]:
    """NVIDIA's in the order of the bus, as nvidia-smi counts them; others go by their address."""
    numbered = 0
    for function in pci:
        if function.class_code[:2] != "03" or function.vendor in MANAGEMENT_VENDORS:
            continue
        name = f"GPU{numbered}" if function.vendor == _NVIDIA else function.address
        numbered += function.vendor == _NVIDIA
        yield Device(name, "gpu", function.address, numa=function.numa)
