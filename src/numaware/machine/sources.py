"""The kinds of files that describe a machine, and the reader of each.

A reader is imported only when its kind is asked for: a command that reads one `numactl` output should not
pay for an XML parser. Every reader module has the same `read(data, source)`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from numaware.errors import InputError
from numaware.machine.topology import Machine

_MODULES = {
    "numactl": "numactl",
    "lscpu": "lscpu",
    "nvidia-smi": "nvidia_smi",
    "hwloc": "hwloc",
    "nccl": "nccl",
    "cadvisor": "cadvisor",
    "lspci": "lspci",
}

KINDS = tuple(_MODULES)


class _Reader(Protocol):
    def read(self, data: bytes, source: str) -> Machine: ...


def read_source(kind: str, data: bytes, source: str) -> Machine:
    """What a file of that kind says about its machine; `source` names the file in an error."""
    if kind not in _MODULES:
        raise InputError(source, f"no reader for {kind[:40]!r}", hint=f"known kinds: {', '.join(KINDS)}")
    reader = cast("_Reader", import_module(f"numaware.machine.{_MODULES[kind]}"))
    return reader.read(data, source)
