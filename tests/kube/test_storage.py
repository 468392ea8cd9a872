from __future__ import annotations

from typing import Any

import pytest

from numaware.kube.decoding import DecodeError
from numaware.kube.storage import (
    decode_attachment,
    decode_capacity,
    decode_claim,
    decode_class,
    decode_driver,
    decode_node_drivers,
    decode_volume,
)
from numaware.workload.scheduling import NodeTerm, Requirement, Selector
from numaware.workload.storage import (
    Attachment,
    Claim,
    NodeDrivers,
    StorageCapacity,
    StorageClass,
    StorageDriver,
    Volume,
)
from support.live_objects import raw

GIB = 1 << 30


def test_a_claim() -> None:
    found = decode_claim(
        raw(
            {
                "metadata": {
                    "namespace": "shop",
                    "name": "data",
                    "uid": "u",
                    "resourceVersion": "7",
                    "annotations": {
                        "pv.kubernetes.io/bind-completed": "yes",
                        "volume.kubernetes.io/selected-node": "n1",
                    },
                    "ownerReferences": [{"uid": "x"}, {"uid": "pod", "controller": True}],
                },
                "spec": {
                    "storageClassName": "late",
                    "volumeName": "v",
                    "accessModes": ["ReadWriteOnce"],
                    "volumeMode": "Block",
                    "resources": {"requests": {"storage": "2Gi"}},
                    "selector": {"matchLabels": {"tier": "gold"}},
                },
                "status": {"phase": "Bound"},
            }
        )
    )
    assert found == Claim(
        "shop",
        "data",
        uid="u",
        version="7",
        phase="Bound",
        storage_class="late",
        volume="v",
        bound=True,
        modes=("ReadWriteOnce",),
        size=2 * GIB,
        block=True,
        selector=Selector((Requirement("tier", "In", ("gold",)),)),
        selected_node="n1",
        owner="pod",
    )


def test_a_claim_with_a_volume_is_bound_when_both_sides_say_so() -> None:
    metadata = {"name": "c", "annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}
    found = decode_claim(raw({"metadata": metadata, "spec": {"volumeName": "v", "storageClassName": "new"}}))
    assert (found.volume, found.bound, found.storage_class) == ("v", False, "old")


def test_a_volume() -> None:
    term = {"matchExpressions": [{"key": "host", "operator": "In", "values": ["n1"]}]}
    found = decode_volume(
        raw(
            {
                "metadata": {"name": "v", "resourceVersion": "3", "labels": {"b": "1", "a": "2"}},
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [term, {}]}},
                    "claimRef": {"namespace": "shop", "name": "data", "uid": "u"},
                    "csi": {"driver": "csi.example.com", "volumeHandle": "h"},
                },
                "status": {"phase": "Available"},
            }
        )
    )
    assert found == Volume(
        "v",
        version="3",
        phase="Available",
        size=GIB,
        modes=("ReadWriteOnce",),
        labels=(("a", "2"), ("b", "1")),
        affinity=(NodeTerm((Requirement("host", "In", ("n1",)),)),),
        claim=("shop", "data"),
        claim_uid="u",
        driver="csi.example.com",
        handle="h",
    )


@pytest.mark.parametrize(
    ("source", "plugin", "handle"),
    [
        ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, "kubernetes.io/aws-ebs", "vol-1"),
        ({"gcePersistentDisk": {"pdName": "d"}}, "kubernetes.io/gce-pd", "d"),
        ({"azureDisk": {"diskName": "d"}}, "kubernetes.io/azure-disk", "d"),
        ({"cinder": {"volumeID": "d"}}, "kubernetes.io/cinder", "d"),
        ({"hostPath": {"path": "/x"}}, "", ""),
    ],
)
def test_volumes_of_plugins_in_the_tree(source: dict[str, Any], plugin: str, handle: str) -> None:
    found = decode_volume(raw({"metadata": {"name": "v"}, "spec": source}))
    assert (found.plugin, found.handle, found.affinity) == (plugin, handle, None)


def test_classes_nodes_drivers_capacities_and_attachments() -> None:
    topology = {"matchLabelExpressions": [{"key": "zone", "values": ["b", "a"]}]}
    late = {"provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": [topology]}
    assert decode_class(raw({"metadata": {"name": "late"}, **late})) == StorageClass(
        "late", "p", waits=True, topologies=((("zone", ("a", "b")),),)
    )
    assert not decode_class(raw({"metadata": {"name": "now"}, "volumeBindingMode": "Immediate"})).waits
    drivers = [{"name": "d", "nodeID": "x", "allocatable": {"count": 3}}, {"name": "e", "nodeID": "x"}]
    assert decode_node_drivers(raw({"metadata": {"name": "n"}, "spec": {"drivers": drivers}})) == NodeDrivers(
        "n", (("d", 3), ("e", None))
    )
    assert decode_driver(
        raw({"metadata": {"name": "d"}, "spec": {"storageCapacity": True}})
    ) == StorageDriver("d", tracks=True)
    assert decode_driver(
        raw({"metadata": {"name": "d"}, "spec": {"preventPodSchedulingIfMissing": True}})
    ) == StorageDriver("d", required=True)
    capacity = {"storageClassName": "late", "capacity": "3Gi", "maximumVolumeSize": "1Gi", "nodeTopology": {}}
    assert decode_capacity(raw({"metadata": {"name": "c", "namespace": "s"}, **capacity})) == StorageCapacity(
        "s/c", "late", GIB, Selector(), total=3 * GIB
    )
    spec = {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    assert decode_attachment(raw({"metadata": {"name": "a"}, "spec": spec})) == Attachment("a", "n", "d", "v")


def test_what_makes_no_sense_is_refused_by_name() -> None:
    with pytest.raises(DecodeError, match="persistent volume claim shop/data"):
        decode_claim(
            raw(
                {
                    "metadata": {"namespace": "shop", "name": "data"},
                    "spec": {"resources": {"requests": {"storage": "much"}}},
                }
            )
        )
    with pytest.raises(DecodeError, match="persistent volume"):
        decode_volume(raw({"metadata": {"name": "v"}, "spec": {"cinder": {"volumeID": 7}}}))
