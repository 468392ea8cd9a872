"""A stand-in for pynvml, NVIDIA's own module: GPUs, slices and links as a test puts them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec

NO_INSTANCE = 0xFFFFFFFF


class FakeSlice(msgspec.Struct):
    uuid: str
    name: str
    gpu_instance: int
    compute_instance: int = 0


class FakeGpu(msgspec.Struct):
    """`links` are bus ids at the other end of each NVLink; `mig` is None for a GPU that knows no MIG."""

    bus: str
    uuid: str
    minor: int
    mig: bool | None = None
    slices: list[FakeSlice | None] = []
    links: list[str] = []
    # What the driver wants done with it before it is used again; None where it cannot say.
    action: int | None = 0


class NVMLError(Exception):
    pass


class NotSupportedError(NVMLError):
    pass


class NotFoundError(NVMLError):
    pass


class InvalidArgumentError(NVMLError):
    pass


class WaitTimeoutError(NVMLError):
    pass


class FakeNvml:
    """Looks like the module; `broken` makes every start fail."""

    NVMLError = NVMLError
    NVMLError_NotSupported = NotSupportedError
    NVMLError_NotFound = NotFoundError
    NVMLError_InvalidArgument = InvalidArgumentError
    NVMLError_Timeout = WaitTimeoutError
    NVML_NVLINK_MAX_LINKS = 18
    NVML_SUCCESS = 0
    NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230
    nvmlEventTypeXidCriticalError = 8  # noqa: N815

    def __init__(self, *gpus: FakeGpu, broken: str = "") -> None:
        self.gpus = list(gpus)
        self.broken = broken
        self.events: list[tuple[FakeGpu, int, int]] = []
        self.deaf = False
        # Since the driver was loaded anew nothing works for who has not begun anew, too.
        self.stale = False

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is not in the module that is faked")

    def nvmlInit(self) -> None:  # noqa: N802
        if self.broken:
            raise NVMLError(self.broken)

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.stale = False

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        if self.broken or self.stale:
            raise NVMLError(self.broken or "Uninitialized")
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, number: int) -> FakeGpu:  # noqa: N802
        return self.gpus[number]

    def nvmlDeviceGetPciInfo(self, gpu: FakeGpu) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(busId=gpu.bus)

    def nvmlDeviceGetUUID(self, handle: FakeGpu | FakeSlice) -> str:  # noqa: N802
        return handle.uuid

    def nvmlDeviceGetName(self, handle: FakeSlice) -> bytes:  # noqa: N802
        return handle.name.encode()

    def nvmlDeviceGetMinorNumber(self, gpu: FakeGpu) -> int:  # noqa: N802
        return gpu.minor

    def nvmlDeviceGetMigMode(self, gpu: FakeGpu) -> tuple[int, int]:  # noqa: N802
        if gpu.mig is None:
            raise NotSupportedError
        return int(gpu.mig), int(gpu.mig)

    def nvmlDeviceGetFieldValues(self, gpu: FakeGpu, fields: list[int]) -> list[SimpleNamespace]:  # noqa: N802
        assert fields == [self.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
        code = 0 if gpu.action is not None else 3
        return [SimpleNamespace(nvmlReturn=code, value=SimpleNamespace(uiVal=gpu.action or 0))]

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: FakeGpu) -> int:  # noqa: N802
        return len(gpu.slices)

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: FakeGpu, place: int) -> FakeSlice:  # noqa: N802
        found = gpu.slices[place]
        if found is None:
            raise NotFoundError
        return found

    def nvmlDeviceGetGpuInstanceId(self, part: FakeSlice) -> int:  # noqa: N802
        return part.gpu_instance

    def nvmlDeviceGetComputeInstanceId(self, part: FakeSlice) -> int:  # noqa: N802
        return part.compute_instance

    def nvmlDeviceGetNvLinkState(self, gpu: FakeGpu, link: int) -> int:  # noqa: N802
        if link >= len(gpu.links):
            raise InvalidArgumentError
        return int(bool(gpu.links[link]))

    def nvmlDeviceGetNvLinkRemotePciInfo(self, gpu: FakeGpu, link: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(busId=gpu.links[link])

    def nvmlEventSetCreate(self) -> object:  # noqa: N802
        return object()

    def nvmlDeviceRegisterEvents(self, gpu: FakeGpu, *_: object) -> None:  # noqa: N802
        if gpu.mig is None:
            raise NotSupportedError

    def nvmlEventSetWait_v2(self, *_: object) -> SimpleNamespace:  # noqa: N802
        if self.deaf:
            raise NVMLError("no events")
        if not self.events:
            raise WaitTimeoutError
        gpu, xid, instance = self.events.pop(0)
        return SimpleNamespace(device=gpu, eventData=xid, gpuInstanceId=instance)
