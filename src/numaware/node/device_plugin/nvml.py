"""NVIDIA's own library, where the extra `numaware[nvidia]` and a driver are there: UUIDs, MIG slices, NVLinks, critical errors.

It is only asked for what the kernel does not tell. Calls into a sick driver may hang, so whoever calls does it in a thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec

from numaware.machine.nvidia_driver import MigKey
from numaware.node.device_plugin.health import Fault
from numaware.node.device_plugin.inventory import Gpu, Slice

_LIBRARY = "libnvidia-ml.so.1"
_FOLDERS = ("usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib", "lib64", "lib")
_PROFILE = re.compile(r"MIG (\S{2,40})\s*\Z")
_MIG_ON = 1
_LINK_UP = 1
# The field's name; modules that are older than it do without.
_RECOVERY_ACTION = "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION"
_NO_ACTION = 0
# As the driver says that an error is of no slice.
_NO_INSTANCE = 0xFFFFFFFF
_WAIT_MS = 1000
# A GPU may report errors without end; what it has told by then is dealt with first.
_MOST_FAULTS = 64


class NvmlError(Exception):
    """The library is there, and does not work."""


class Linked(msgspec.Struct, frozen=True):
    """All GPUs by address, and how many NVLinks are between two."""

    gpus: Mapping[str, Gpu]
    nvlinks: Mapping[frozenset[str], int]


def load() -> Any | None:
    """The module that speaks NVML; None where the extra is not installed."""
    try:
        import pynvml  # noqa: PLC0415 - an extra, and nothing that a command without GPUs should pay for
    except ImportError:
        return None
    return pynvml


class Nvml:
    """The library, opened; `module` is pynvml, or what a test has in its place."""

    def __init__(self, module: Any, driver_root: str = "/") -> None:
        self._nvml = module
        if driver_root != "/":
            module.nvmlLib = _library_below(driver_root)
        try:
            module.nvmlInit()
        except module.NVMLError as error:
            raise NvmlError(f"NVML does not start: {error}") from None
        self._events: Any = None

    def close(self) -> None:
        with contextlib.suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def gpus(self, mig_nodes: Mapping[MigKey, str]) -> Linked:
        """Every GPU that the driver has."""
        nvml = self._nvml
        try:
            handles = [nvml.nvmlDeviceGetHandleByIndex(number) for number in range(nvml.nvmlDeviceGetCount())]
            addresses = [_address(nvml.nvmlDeviceGetPciInfo(handle).busId) for handle in handles]
            gpus = {
                address: self._gpu(index, handle, mig_nodes)
                for index, (address, handle) in enumerate(zip(addresses, handles, strict=True))
            }
            links = {address: self._links(handle) for address, handle in zip(addresses, handles, strict=True)}
        except nvml.NVMLError as error:
            raise NvmlError(f"NVML cannot list the GPUs: {error}") from None
        return Linked(gpus, _pairs(links))

    def faults(self) -> Iterator[Fault]:
        """Critical errors as they come, for as long as they are asked for; waits up to a second for each, then ends; at most 64.

        Those of GPUs that cannot report any are not waited for.
        """
        nvml = self._nvml
        try:
            if self._events is None:
                self._events = self._registered()
            for _ in range(_MOST_FAULTS):
                try:
                    event = nvml.nvmlEventSetWait_v2(self._events, _WAIT_MS)
                except nvml.NVMLError_Timeout:
                    return
                instance = event.gpuInstanceId
                yield Fault(
                    _address(nvml.nvmlDeviceGetPciInfo(event.device).busId),
                    event.eventData,
                    None if instance == _NO_INSTANCE else instance,
                )
        except nvml.NVMLError as error:
            raise NvmlError(f"NVML cannot wait for errors: {error}") from None

    def _registered(self) -> Any:
        """A set of events in which every GPU is that can report errors."""
        nvml = self._nvml
        count = nvml.nvmlDeviceGetCount()
        events = nvml.nvmlEventSetCreate()
        for number in range(count):
            with contextlib.suppress(nvml.NVMLError):
                handle = nvml.nvmlDeviceGetHandleByIndex(number)
                nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
        return events

    def _gpu(self, index: int, handle: Any, mig_nodes: Mapping[MigKey, str]) -> Gpu:
        nvml = self._nvml
        minor = nvml.nvmlDeviceGetMinorNumber(handle)
        try:
            mig = nvml.nvmlDeviceGetMigMode(handle)[0] == _MIG_ON
        except nvml.NVMLError_NotSupported:
            mig = False
        slices = tuple(self._slices(handle, minor, mig_nodes)) if mig else ()
        uuid = _text(nvml.nvmlDeviceGetUUID(handle))
        return Gpu(index, uuid, (f"/dev/nvidia{minor}",), mig, slices, self._needs_repair(handle))

    def _needs_repair(self, handle: Any) -> bool:
        """Whether the driver asks for any action before the GPU is used again; older ones cannot say."""
        nvml = self._nvml
        field = getattr(nvml, _RECOVERY_ACTION, None)
        if field is None:
            return False
        try:
            (answer,) = nvml.nvmlDeviceGetFieldValues(handle, [field])
        except nvml.NVMLError:
            return False
        return bool(answer.nvmlReturn == nvml.NVML_SUCCESS and answer.value.uiVal != _NO_ACTION)

    def _slices(self, gpu: Any, minor: int, mig_nodes: Mapping[MigKey, str]) -> Iterator[Slice]:
        nvml = self._nvml
        for place in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
            try:
                handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, place)
            except (nvml.NVMLError_NotFound, nvml.NVMLError_InvalidArgument):
                continue
            instance = nvml.nvmlDeviceGetGpuInstanceId(handle)
            compute = nvml.nvmlDeviceGetComputeInstanceId(handle)
            profile = _PROFILE.search(_text(nvml.nvmlDeviceGetName(handle)))
            nodes = [mig_nodes.get((minor, instance, None)), mig_nodes.get((minor, instance, compute))]
            yield Slice(
                _text(nvml.nvmlDeviceGetUUID(handle)),
                profile[1] if profile else "unknown",
                place,
                instance,
                compute,
                tuple(node for node in nodes if node),
            )

    def _links(self, handle: Any) -> Counter[str]:
        """Address at the other end -> links that are up."""
        nvml = self._nvml
        ends: Counter[str] = Counter()
        for link in range(nvml.NVML_NVLINK_MAX_LINKS):
            try:
                up = nvml.nvmlDeviceGetNvLinkState(handle, link) == _LINK_UP
            except nvml.NVMLError:
                # A card has fewer links than the library knows of, or none.
                break
            if up:
                try:
                    ends[_address(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId)] += 1
                except nvml.NVMLError:
                    # A virtual machine may have the GPUs of a board without its switches.
                    ends[""] += 1
        return ends


def _pairs(links: Mapping[str, Counter[str]]) -> dict[frozenset[str], int]:
    """Links between two GPUs: those from one to the other, and through switches as many as both have to any."""
    switched = {
        gpu: sum(count for end, count in ends.items() if end not in links) for gpu, ends in links.items()
    }
    counts = {
        frozenset((a, b)): links[a][b] + min(switched[a], switched[b]) for a, b in combinations(links, 2)
    }
    return {pair: count for pair, count in counts.items() if count}


def _library_below(root: str) -> ctypes.CDLL:
    for folder in _FOLDERS:
        path = Path(root, folder, _LIBRARY)
        if path.exists():
            try:
                return ctypes.CDLL(str(path))
            except OSError as error:
                raise NvmlError(f"{path}: {error}") from None
    raise NvmlError(f"nvidiaDriverRoot {root}: {_LIBRARY} is not below it")


def _address(bus_id: str | bytes) -> str:
    """The kernel's form: NVML writes domains with eight digits and capitals."""
    domain, _, rest = _text(bus_id).lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
