"""What a device plugin told the kubelet to do to a container: the protobuf ContainerAllocateResponse of its v1beta1 API.

The kubelet keeps the bytes of each answer in `kubelet_internal_checkpoint`, and gives them to the container runtime again
after a restart; `checkpoint show` reads them. Five fields do not need a protobuf library, which takes longer to import than
the file to read. The bytes are a stranger's: whatever is no such message is a ValueError, and each byte is looked at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
_LARGEST_FIELD = (1 << 29) - 1


class Mount(msgspec.Struct, frozen=True, rename="camel"):
    """A folder or file of the host that the container sees."""

    container_path: str = ""
    host_path: str = ""
    read_only: bool = False


class DeviceNode(msgspec.Struct, frozen=True, rename="camel"):
    """A device node that the container may open; `permissions` are letters of `rwm`."""

    container_path: str = ""
    host_path: str = ""
    permissions: str = ""


class AllocResponse(msgspec.Struct, frozen=True, rename="camel"):
    """One plugin's answer for one container."""

    envs: Mapping[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    annotations: Mapping[str, str] = {}
    cdi_devices: tuple[str, ...] = ()


def decode(data: bytes) -> AllocResponse:
    """The answer in the bytes; fields that are not known are passed over, as protobuf wants it."""
    envs: dict[str, str] = {}
    annotations: dict[str, str] = {}
    mounts, devices, names = [], [], []
    for number, kind, value in _fields(data):
        if kind != _LENGTH or not isinstance(value, bytes):
            continue
        if number == 1:
            envs.update([_pair(value)])
        elif number == 2:
            texts, read_only = _texts(value, 2), False
            for field, wire, flag in _fields(value):
                if (field, wire) == (3, _VARINT):
                    read_only = bool(flag)
            mounts.append(Mount(texts[0], texts[1], read_only))
        elif number == 3:
            devices.append(DeviceNode(*_texts(value, 3)))
        elif number == 4:
            annotations.update([_pair(value)])
        elif number == 5:
            names += _texts(value, 1)
    return AllocResponse(envs, tuple(mounts), tuple(devices), annotations, tuple(names))


def one_variable(device_ids: Iterable[str]) -> bytes:
    """The answer of a plugin that sets one variable, `DEVICES`, to the ids.

    Real plugins answer with whatever their runtime needs, which nobody can foretell; this is the answer of the plugins
    that the recorded kubelets ran with.
    """
    value = _field(1, b"DEVICES") + _field(2, ",".join(sorted(device_ids)).encode())
    return _field(1, value)


def _pair(data: bytes) -> tuple[str, str]:
    key, value = _texts(data, 2)
    return key, value


def _texts(data: bytes, count: int) -> list[str]:
    """The fields 1 to `count`, all of them text; the last of each counts, and one that is not there is empty."""
    found = [""] * count
    for number, kind, value in _fields(data):
        if kind == _LENGTH and number <= count and isinstance(value, bytes):
            found[number - 1] = value.decode()
    return found


def _fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Number, wire type and content of each field of a message."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        number, kind = tag >> 3, tag & 7
        if not 1 <= number <= _LARGEST_FIELD:
            raise ValueError(f"{number} is no number of a field")
        if kind == _VARINT:
            value, place = _varint(data, place)
            yield number, kind, value
            continue
        if kind == _LENGTH:
            size, place = _varint(data, place)
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            size = 8 if kind == _EIGHT_BYTES else 4
        else:
            raise ValueError(f"{kind} is no type of a field")
        if size > len(data) - place:
            raise ValueError("ends in the middle of a field")
        yield number, kind, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A number of at most 64 bits, seven of them in each byte, and the place after it."""
    number = 0
    for shift in range(0, 64, 7):
        if place >= len(data):
            raise ValueError("ends in the middle of a number")
        byte = data[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >> 64:
                break
            return number, place
    raise ValueError("holds a number of more than 64 bits")


def _field(number: int, payload: bytes) -> bytes:
    """A length-delimited field."""
    length = len(payload)
    prefix = bytearray([number << 3 | 2])
    while length > 0x7F:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    prefix.append(length)
    return bytes(prefix) + payload
