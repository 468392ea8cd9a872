"""Storage of the API server: claims, volumes, classes and what CSI drivers say of nodes, read into `workload/storage.py`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, Raw, UnsetType

from numaware.kube.decoding import DecodeError, Metadata, Reader, Wire, count
from numaware.kube.label_selectors import WireNodeTerm, WireSelector
from numaware.workload.scheduling import NodeTerm
from numaware.workload.storage import (
    Attachment,
    Claim,
    NodeDrivers,
    StorageCapacity,
    StorageClass,
    StorageDriver,
    Volume,
)

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
# Before there was a field for it; it still wins where it is written.
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
_BLOCK = "Block"


def decode_claim(raw: bytes | Raw) -> Claim:
    """One PersistentVolumeClaim; `DecodeError` for what cannot be read."""
    wire = _CLAIM.read(raw)
    metadata, spec = wire.metadata, wire.spec
    annotations = metadata.annotations or {}
    return Claim(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        version=metadata.resource_version,
        phase=wire.status.phase,
        storage_class=annotations.get(_OLD_CLASS) or spec.storage_class_name or "",
        volume=spec.volume_name or "",
        bound=bool(spec.volume_name) and _BIND_COMPLETED in annotations,
        deleting=metadata.deletion_timestamp is not None,
        modes=spec.access_modes or (),
        size=_size(_CLAIM, raw, (spec.resources.requests if spec.resources else None) or {}),
        block=spec.volume_mode == _BLOCK,
        selector=spec.selector.value if spec.selector is not None else None,
        attributes_class=spec.volume_attributes_class_name or "",
        selected_node=annotations.get(SELECTED_NODE, ""),
        owner=next((one.uid for one in metadata.owner_references or () if one.controller), ""),
    )


def decode_volume(raw: bytes | Raw) -> Volume:
    """One PersistentVolume; `DecodeError` for what cannot be read."""
    wire = _VOLUME.read(raw)
    metadata, spec = wire.metadata, wire.spec
    annotations = metadata.annotations or {}
    required = spec.node_affinity.required if spec.node_affinity else None
    plugin, handle = _in_tree(spec)
    return Volume(
        name=metadata.name,
        version=metadata.resource_version,
        phase=wire.status.phase,
        storage_class=annotations.get(_OLD_CLASS) or spec.storage_class_name or "",
        size=_size(_VOLUME, raw, spec.capacity or {}),
        modes=spec.access_modes or (),
        block=spec.volume_mode == _BLOCK,
        labels=tuple(sorted((metadata.labels or {}).items())),
        affinity=None
        if required is None
        else tuple(
            term
            for one in required.node_selector_terms or ()
            # A term without a condition matches nothing.
            if (term := one.value) != NodeTerm()
        ),
        claim=(spec.claim_ref.namespace, spec.claim_ref.name) if spec.claim_ref else None,
        claim_uid=spec.claim_ref.uid if spec.claim_ref else "",
        deleting=metadata.deletion_timestamp is not None,
        attributes_class=spec.volume_attributes_class_name or "",
        driver=spec.csi.driver if spec.csi else "",
        handle=spec.csi.volume_handle if spec.csi else handle,
        plugin=plugin,
    )


def decode_class(raw: bytes | Raw) -> StorageClass:
    """One StorageClass; `DecodeError` for what cannot be read."""
    wire = _CLASS.read(raw)
    return StorageClass(
        name=wire.metadata.name,
        provisioner=wire.provisioner,
        waits=wire.volume_binding_mode == "WaitForFirstConsumer",
        topologies=tuple(
            tuple((one.key, tuple(sorted(one.values))) for one in term.match_label_expressions or ())
            for term in wire.allowed_topologies or ()
        ),
    )


def decode_node_drivers(raw: bytes | Raw) -> NodeDrivers:
    """One CSINode; `DecodeError` for what cannot be read."""
    wire = _NODE.read(raw)
    limits = {
        one.name: None if one.allocatable is None else one.allocatable.count
        for one in wire.spec.drivers or ()
    }
    return NodeDrivers(wire.metadata.name, tuple(sorted(limits.items())))


def decode_driver(raw: bytes | Raw) -> StorageDriver:
    """One CSIDriver; `DecodeError` for what cannot be read."""
    wire = _DRIVER.read(raw)
    spec = wire.spec
    return StorageDriver(
        wire.metadata.name,
        tracks=bool(spec.storage_capacity),
        required=bool(spec.prevent_pod_scheduling_if_missing),
    )


def decode_capacity(raw: bytes | Raw) -> StorageCapacity:
    """One CSIStorageCapacity; `DecodeError` for what cannot be read."""
    wire = _CAPACITY.read(raw)
    metadata = wire.metadata
    total = 0 if wire.capacity is None else _size(_CAPACITY, raw, {"storage": wire.capacity})
    said = wire.maximum_volume_size if wire.maximum_volume_size is not None else wire.capacity
    return StorageCapacity(
        name=f"{metadata.namespace}/{metadata.name}",
        storage_class=wire.storage_class_name,
        largest=None if said is None else _size(_CAPACITY, raw, {"storage": said}),
        nodes=wire.node_topology.value if wire.node_topology is not None else None,
        total=total,
    )


def decode_attachment(raw: bytes | Raw) -> Attachment:
    """One VolumeAttachment; `DecodeError` for what cannot be read."""
    wire = _ATTACHMENT.read(raw)
    spec = wire.spec
    return Attachment(
        wire.metadata.name, spec.node_name, spec.attacher, spec.source.persistent_volume_name or ""
    )


def _size(reader: Reader, raw: bytes | Raw, amounts: Mapping[str, str | int]) -> int:  # type: ignore[type-arg] # of any kind
    try:
        return count("storage", amounts.get("storage", 0))
    except ValueError as error:
        raise reader.refused(raw, str(error)) from None


def _in_tree(spec: _VolumeSpec) -> tuple[str, str]:
    """The in-tree plugin of a volume that a CSI driver may have taken over, and what it calls the volume."""
    for plugin, source, name in (
        ("kubernetes.io/aws-ebs", spec.aws_elastic_block_store, "volumeID"),
        ("kubernetes.io/gce-pd", spec.gce_persistent_disk, "pdName"),
        ("kubernetes.io/azure-disk", spec.azure_disk, "diskName"),
        ("kubernetes.io/cinder", spec.cinder, "volumeID"),
    ):
        if source is not UNSET:
            try:
                named = msgspec.json.decode(source, type=dict[str, Raw]).get(name)
                return plugin, msgspec.json.decode(named, type=str) if named is not None else ""
            except (msgspec.MsgspecError, RecursionError) as error:
                raise DecodeError("persistent volume", str(error)) from None
    return "", ""


# The wire


class _Requests(Wire):
    requests: dict[str, str | int] | None = None


class _ClaimSpec(Wire):
    storage_class_name: str | None = None
    volume_name: str | None = None
    access_modes: tuple[str, ...] | None = None
    resources: _Requests | None = None
    volume_mode: str | None = None
    selector: WireSelector | None = None
    volume_attributes_class_name: str | None = None


class _Phase(Wire):
    phase: str = ""


class _Claim(Wire):
    metadata: Metadata
    spec: _ClaimSpec = msgspec.field(default_factory=_ClaimSpec)
    status: _Phase = msgspec.field(default_factory=_Phase)


class _Reference(Wire):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _Required(Wire):
    node_selector_terms: tuple[WireNodeTerm, ...] | None = None


class _Affinity(Wire):
    required: _Required | None = None


class _Csi(Wire):
    driver: str = ""
    volume_handle: str = ""


class _VolumeSpec(Wire):
    storage_class_name: str | None = None
    capacity: dict[str, str | int] | None = None
    access_modes: tuple[str, ...] | None = None
    volume_mode: str | None = None
    node_affinity: _Affinity | None = None
    claim_ref: _Reference | None = None
    volume_attributes_class_name: str | None = None
    csi: _Csi | None = None
    # "volumeID" is no camelCase of anything: these are looked into by hand.
    aws_elastic_block_store: Raw | UnsetType = UNSET
    gce_persistent_disk: Raw | UnsetType = UNSET
    azure_disk: Raw | UnsetType = UNSET
    cinder: Raw | UnsetType = UNSET


class _Volume(Wire):
    metadata: Metadata
    spec: _VolumeSpec = msgspec.field(default_factory=_VolumeSpec)
    status: _Phase = msgspec.field(default_factory=_Phase)


class _Label(Wire):
    key: str
    values: tuple[str, ...] = ()


class _Term(Wire):
    match_label_expressions: tuple[_Label, ...] | None = None


class _Class(Wire):
    metadata: Metadata
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[_Term, ...] | None = None


class _Count(Wire):
    count: int | None = None


class _NodeDriver(Wire):
    name: str
    allocatable: _Count | None = None


class _NodeSpec(Wire):
    drivers: tuple[_NodeDriver, ...] | None = None


class _Node(Wire):
    metadata: Metadata
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)


class _DriverSpec(Wire):
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class _Driver(Wire):
    metadata: Metadata
    spec: _DriverSpec = msgspec.field(default_factory=_DriverSpec)


class _Capacity(Wire):
    metadata: Metadata
    storage_class_name: str = ""
    capacity: str | int | None = None
    maximum_volume_size: str | int | None = None
    node_topology: WireSelector | None = None


class _Source(Wire):
    persistent_volume_name: str | None = None


class _AttachmentSpec(Wire):
    attacher: str = ""
    node_name: str = ""
    source: _Source = msgspec.field(default_factory=_Source)


class _Attachment(Wire):
    metadata: Metadata
    spec: _AttachmentSpec = msgspec.field(default_factory=_AttachmentSpec)


_CLAIM = Reader("persistent volume claim", _Claim)
_VOLUME = Reader("persistent volume", _Volume)
_CLASS = Reader("storage class", _Class)
_NODE = Reader("CSI node", _Node)
_DRIVER = Reader("CSI driver", _Driver)
_CAPACITY = Reader("CSI storage capacity", _Capacity)
_ATTACHMENT = Reader("volume attachment", _Attachment)
