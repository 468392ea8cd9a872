"""`/proc/cpuinfo`: the name of the processor, its architecture, and, where sysfs is silent, its cores."""

from __future__ import annotations

import re

from numaware.machine.cpuset import MAX_ID
from numaware.machine.sysfs.source import Source

# s390 writes `processor 0: version = FF, ...`; everyone else `processor : 0`.
_S390_PROCESSOR = re.compile(r"processor (\d{1,5})$")
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
    """The file as one block of fields for each processor, and one of what is said about all of them."""

    def __init__(self, blocks: dict[int, Block], common: Block) -> None:
        self.blocks = blocks
        first = blocks[min(blocks)] if blocks else {}
        self.fields = common | first

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
        text = self.blocks.get(cpu, {}).get(field, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


def read_cpuinfo(source: Source) -> CpuInfo:
    blocks: dict[int, Block] = {}
    common: Block = {}
    current = common
    data = source.raw("proc/cpuinfo") or b""
    for line in data.decode("utf-8", "replace").split("\n"):
        field, colon, value = line.partition(":")
        if not colon:
            current = common if not line.strip() else current
            continue
        # ARM kernels have a `Processor` for the model and a `processor` for the number.
        name, text = field.strip(), value.strip()
        number = _processor_number(name, text)
        if number is None:
            current.setdefault(name.lower(), text)
        elif number <= MAX_ID:
            current = blocks.setdefault(number, {})
    return CpuInfo(blocks, common)


def _processor_number(name: str, text: str) -> int | None:
    if name == "processor":
        return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None
    found = _S390_PROCESSOR.match(name) if name.startswith("processor ") else None
    return int(found[1]) if found else None
