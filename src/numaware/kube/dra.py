"""ResourceSlices, ResourceClaims and DeviceClasses of the API server, read into `workload/dra/objects.py`."""

from __future__ import annotations

from msgspec import Raw

from numaware.kube.decoding import Reader
from numaware.workload.dra.objects import DeviceClaim, DeviceClass, DeviceSlice
from numaware.workload.dra.reading import ClaimWire, ClassWire, SliceWire

_SLICE = Reader("resource slice", SliceWire)
_CLAIM = Reader("resource claim", ClaimWire)
_CLASS = Reader("device class", ClassWire)


def decode_slice(raw: bytes | Raw) -> DeviceSlice:
    """One ResourceSlice; `DecodeError` for what cannot be read."""
    return _SLICE.read(raw).value


def decode_claim(raw: bytes | Raw) -> DeviceClaim:
    """One ResourceClaim; `DecodeError` for what cannot be read."""
    return _CLAIM.read(raw).value


def decode_class(raw: bytes | Raw) -> DeviceClass:
    """One DeviceClass; `DecodeError` for what cannot be read."""
    return _CLASS.read(raw).value
