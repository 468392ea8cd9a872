"""`kubelet_internal_checkpoint`: which container holds which devices, and which devices were registered.

Mirrors pkg/kubelet/cm/devicemanager/checkpoint. Layouts: v1 (to 1.19) lists the ids of an entry; v2 (1.20 on) lists
them by NUMA node, -1 standing for devices without topology, a device on two nodes under both.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from numaware.twin.state import document
from numaware.twin.state.checksum import Stamp, fnv1a
from numaware.twin.state.errors import checked
from numaware.twin.state.golang import NIL, Unsigned, dump_list, dump_map, json_text

FILE = "kubelet_internal_checkpoint"

Form = Literal["v1", "v2"]
Registered = Mapping[str, Sequence[str]]


class DeviceEntry(msgspec.Struct, frozen=True):
    """The devices of one resource that one container holds, and what its plugin answered when they were given.

    KUBELET: v1 knows no NUMA nodes; its ids are read as devices of node 0 (GetDataInLatestFormat, to 1.30).
    """

    pod_uid: str
    container: str
    resource: str
    devices: Mapping[int, Sequence[str]]
    alloc_response: bytes = b""

    def nodes_of(self) -> dict[str, tuple[int, ...]]:
        """Device -> NUMA nodes, ascending; a device on two nodes is listed under both, one on none under -1."""
        nodes: dict[str, tuple[int, ...]] = {}
        for node, ids in sorted(self.devices.items()):
            for device in ids:
                nodes[device] = (*nodes.get(device, ()), node) if node >= 0 else ()
        return nodes


class DeviceCheckpoint(msgspec.Struct, frozen=True):
    """One file. `boot_id` is the boot the file was written in, which the newest kubelets add outside the checksum."""

    stamp: Stamp
    entries: tuple[DeviceEntry, ...] = ()
    registered: dict[str, tuple[str, ...]] = {}
    boot_id: str = ""


def encode(entries: Sequence[DeviceEntry], registered: Registered, form: Form = "v2") -> str:
    """The file a kubelet writes, every list sorted (a kubelet leaves their order to chance)."""
    listed = [
        _to_wire(entry, form)
        for entry in sorted(entries, key=lambda entry: (entry.pod_uid, entry.container, entry.resource))
    ]
    data = _Data(listed or None, {resource: tuple(sorted(ids)) for resource, ids in registered.items()})
    return json_text(_File(data, fnv1a(_dump(data))))


def decode(data: str | bytes, source: str = FILE) -> DeviceCheckpoint:
    """Read a file as a starting kubelet does: the content, or an error when the checksum is wrong."""
    checkpoint = parse(document.read(data, source).fields, source)
    checked(source, checkpoint.stamp)
    return checkpoint


def parse(fields: Mapping[str, Any], source: str = FILE) -> DeviceCheckpoint:
    """Read the content without judging its checksum; `stamp` says how that turned out."""
    return document.parse(fields, source, FILE, _parse)


def _parse(fields: Mapping[str, Any]) -> DeviceCheckpoint:
    content = msgspec.convert(fields, _Content)
    data = content.data
    listed = data.entries or []
    stamp = Stamp(_form(listed), content.checksum, fnv1a(_dump(data)))
    return DeviceCheckpoint(stamp, tuple(map(_from_wire, listed)), data.registered, content.bootid)


class _Entry(msgspec.Struct):
    uid: str = msgspec.field(name="PodUID", default="")
    container: str = msgspec.field(name="ContainerName", default="")
    resource: str = msgspec.field(name="ResourceName", default="")
    ids: list[str] | dict[str, list[str]] = msgspec.field(name="DeviceIDs", default_factory=dict)
    response: str = msgspec.field(name="AllocResp", default="")


class _Data(msgspec.Struct):
    entries: list[_Entry] | None = msgspec.field(name="PodDeviceEntries", default_factory=list)
    registered: dict[str, tuple[str, ...]] = msgspec.field(name="RegisteredDevices", default_factory=dict)


class _Content(msgspec.Struct):
    """The fields as they stand in the file, keys folded to lower case."""

    data: _Data
    checksum: Unsigned | None = None
    bootid: str = ""


class _File(msgspec.Struct):
    data: _Data = msgspec.field(name="Data")
    checksum: int = msgspec.field(name="Checksum")


def _form(entries: Sequence[_Entry]) -> Form:
    """Without entries the two layouts are one, and named after the newer."""
    forms: set[Form] = {"v1" if isinstance(entry.ids, list) else "v2" for entry in entries}
    if len(forms) > 1:
        raise ValueError("DeviceIDs is a list in one entry and a map in another")
    return forms.pop() if forms else "v2"


def _from_wire(entry: _Entry) -> DeviceEntry:
    devices = {0: entry.ids} if isinstance(entry.ids, list) else _by_node(entry.ids)
    response = base64.b64decode(entry.response, validate=True)
    return DeviceEntry(entry.uid, entry.container, entry.resource, devices, response)


def _to_wire(entry: DeviceEntry, form: Form) -> _Entry:
    ids: list[str] | dict[str, list[str]]
    if form == "v1":
        ids = sorted({name for names in entry.devices.values() for name in names})
    else:
        ids = {str(node): sorted(names) for node, names in entry.devices.items()}
    response = base64.b64encode(entry.alloc_response).decode()
    return _Entry(entry.pod_uid, entry.container, entry.resource, ids, response)


def _by_node(ids: Mapping[str, list[str]]) -> dict[int, list[str]]:
    """The same map with its keys as the numbers they are."""
    return msgspec.convert(ids, dict[int, list[str]], strict=False)


def _dump(data: _Data) -> str:
    listed = NIL if data.entries is None else dump_list(map(_dump_entry, data.entries))
    names = dump_map({resource: dump_list(ids) for resource, ids in data.registered.items()})
    return (
        f"(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry){listed}"
        f" RegisteredDevices:(map[string][]string){names}}}"
    )


def _dump_entry(entry: _Entry) -> str:
    if isinstance(entry.ids, list):
        ids = f"([]string){dump_list(entry.ids)}"
    else:
        nodes = {node: dump_list(names) for node, names in _by_node(entry.ids).items()}
        ids = f"(checkpoint.DevicesPerNUMA){dump_map(nodes)}"
    response = dump_list(map(str, base64.b64decode(entry.response, validate=True)))
    return (
        f"{{PodUID:(string){entry.uid} ContainerName:(string){entry.container}"
        f" ResourceName:(string){entry.resource} DeviceIDs:{ids} AllocResp:([]uint8){response}}}"
    )
