"""`/proc/cpuinfo`: the name of the processor, its architecture, and, where sysfs is silent, its cores."""

from __future__ import annotations

import re

from numaware.machine.cpuset import MAX_ID
from numaware.machine.sysfs.source import Source

# s390 writes `processor 0: version = FF, ...`; everyone else `processor : 0`.
_PROCESSOR = re.compile(r"^processor(?: (\d{1,5}):|\s*: (\d{1,5})\s*$)", re.MULTILINE | re.ASCII)
_ARCHITECTURES = (
    # (field, what its value begins with, architecture)
    ("vendor_id", "IBM/S390", "s390x"),
    ("arch", "IA-64", "ia64"),
    ("isa", "rv64", "riscv64"),
    ("isa", "rv32", "riscv32"),
    ("cpu architecture", "8", "aarch64"),
    ("cpu architecture", "7", "armv7l"),
    ("cpu architecture", "6", "armv6l"),
    ("system type", "generic-loongson", "loongarch64"),
    ("cpu family", "Loongson-64bit", "loongarch64"),
)
_MODEL_FIELDS = ("model name", "cpu", "uarch", "processor")

Block = dict[str, str]


class CpuInfo:
    """The file as one block of lines for each processor, and the fields of the first one with what is said of all."""

    def __init__(self, blocks: dict[int, str], common: Block) -> None:
        self.blocks = blocks
        self.fields = common | _fields(blocks[min(blocks)]) if blocks else common

    @property
    def model(self) -> str | None:
        """The name of the processor, as the kernel prints it for people."""
        for field in _MODEL_FIELDS:
            name = " ".join(self.fields.get(field, "").split())
            if name and not name.isdigit():
                return name
        return None

    @property
    def architecture(self) -> str | None:
        """The machine name `uname -m` would print, as far as the file gives it away."""
        for field, start, name in _ARCHITECTURES:
            if self.fields.get(field, "").startswith(start):
                return name
        if "flags" in self.fields and "vendor_id" in self.fields:
            return "x86_64" if "lm" in self.fields["flags"].split() else "i686"
        return None

    def is_knights_landing(self) -> bool:
        """Whether this is a Xeon Phi with memory in the package (KNL or KNM)."""
        fields = self.fields
        return (
            fields.get("vendor_id") == "GenuineIntel"
            and fields.get("cpu family") == "6"
            and fields.get("model") in ("87", "133")
        )

    def number(self, cpu: int, field: str) -> int | None:
        text = _fields(self.blocks.get(cpu, "")).get(field, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


def read_cpuinfo(source: Source) -> CpuInfo:
    """Only the first block is taken apart: the others say the same, hundreds of times."""
    blocks: dict[int, str] = {}
    common: Block = {}
    text = (source.raw("proc/cpuinfo") or b"").decode("utf-8", "replace")
    for block in text.split("\n\n"):
        numbers = [int(digits) for pair in _PROCESSOR.findall(block) for digits in pair if digits]
        if numbers:
            blocks |= dict.fromkeys((number for number in numbers if number <= MAX_ID), block)
        if len(numbers) != 1:
            common |= _fields(block)
    return CpuInfo(blocks, common)


def _fields(block: str) -> Block:
    """The `name : value` lines of a block; of a name said twice (ARM's `Processor` and `processor`) the first."""
    fields: Block = {}
    for line in block.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip().lower(), value.strip())
    return fields
