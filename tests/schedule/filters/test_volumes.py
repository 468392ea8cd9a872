"""Where a pod can have its volumes, in kube-scheduler's words, and what has to be done for that."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from numaware.diagnose.texts import say
from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Engine
from numaware.schedule.filters import VolumeRules, volume_rules
from numaware.schedule.filters.volume_users import VolumeUsers
from numaware.schedule.message import refusal
from numaware.schedule.storage import Storage
from numaware.workload.disks import Disk, DiskKind
from numaware.workload.pod import Container, Pod
from numaware.workload.scheduling import NodeRules, NodeTerm, Requirement, Scheduling, Selector
from numaware.workload.storage import (
    Attachment,
    Claim,
    NodeDrivers,
    StorageCapacity,
    StorageClass,
    StorageDriver,
    Volume,
    VolumePlan,
)
from support.small_clusters import facts_of, gpu_node
from support.twin_nodes import pod

ZONE = "topology.kubernetes.io/zone"
ON_N1 = (NodeTerm((Requirement("host", "In", ("n1",)),)),)
ONCE = ("ReadWriteOnce",)
LATE = StorageClass("late", "csi.example.com", waits=True)


def world(*stored: object, known: bool = True) -> Engine:
    """Three nodes in zones a, b and none."""
    storage = Storage(known=known)
    for one in stored:
        storage.put(one)  # type: ignore[arg-type] # whatever is stored
    node = gpu_node()
    zones = {"n0": "a", "n1": "b"}
    return Engine(
        Cluster(
            (
                (
                    facts_of(
                        name,
                        node,
                        labels=tuple(
                            sorted({"host": name, **({ZONE: zones[name]} if name in zones else {})}.items())
                        ),
                    ),
                    node,
                )
                for name in ("n0", "n1", "n2")
            ),
            storage=storage,
        )
    )


def asks(*claims: str, uid: str = "p", ephemeral: tuple[str, ...] = (), disks: tuple[Disk, ...] = ()) -> Pod:
    return replace(pod(uid), scheduling=Scheduling(claims=claims, ephemeral=ephemeral, disks=disks))


def bound(name: str, **fields: object) -> tuple[Claim, Volume]:
    volume = Volume(f"v-{name}", phase="Bound", claim=("default", name), **fields)  # type: ignore[arg-type] # its own
    return Claim("default", name, uid=name, volume=f"v-{name}", bound=True, modes=ONCE), volume


def late(name: str = "c", size: int = 5, **fields: object) -> Claim:
    return Claim("default", name, uid=name, storage_class="late", size=size, modes=ONCE, **fields)  # type: ignore[arg-type] # its own


def said(engine: Engine, of: Pod) -> list[str]:
    """What each node says, empty if it takes the pod."""
    return ["; ".join(map(say, answer.reasons)) for answer in engine.ask(of)]


def nodes(engine: Engine, of: Pod) -> list[str]:
    return [member.name for member, text in zip(engine.cluster, said(engine, of), strict=True) if not text]


def message(engine: Engine, of: Pod) -> str:
    return say(refusal(engine.decide(of), len(engine.cluster)))


# What no node can help


@pytest.mark.parametrize(
    ("stored", "of", "text"),
    [
        ((), asks("c"), 'persistentvolumeclaim "c" not found'),
        (
            (),
            asks("p-c", ephemeral=("p-c",)),
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-c"',
        ),
        (
            (Claim("default", "p-c", owner="another"),),
            asks("p-c", ephemeral=("p-c",)),
            "PVC default/p-c was not created for pod default/p (pod is not owner)",
        ),
        (
            (Claim("default", "c", phase="Lost", volume="v"),),
            asks("c"),
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
        ((Claim("default", "c", deleting=True),), asks("c"), 'persistentvolumeclaim "c" is being deleted'),
        ((Claim("default", "c"),), asks("c"), "pod has unbound immediate PersistentVolumeClaims"),
        # Promised to a volume by hand: that is for the controller to bind, even if the class waits.
        ((LATE, late(volume="v")), asks("c"), "pod has unbound immediate PersistentVolumeClaims"),
        ((Claim("default", "c", volume="v", bound=True),), asks("c"), 'persistentvolume "v" not found'),
    ],
)
def test_a_claim_that_no_node_can_help_is_told_once(stored: tuple[object, ...], of: Pod, text: str) -> None:
    engine = world(*stored)
    assert message(engine, of) == f"0/3 nodes are available: {text}."
    assert said(engine, of) == [text] * 3


def test_nothing_is_said_about_claims_that_could_not_be_read_yet() -> None:
    engine = world(*bound("c"), known=False)
    assert "could not be read yet" in message(engine, asks("c"))
    assert all(answer.is_unknown for answer in engine.ask(asks("c")))
    assert engine.decide(pod("other")).node


# Bound claims


def test_a_bound_claim_is_had_where_its_volume_is() -> None:
    """Such pods were never placed."""
    engine = world(*bound("c", affinity=ON_N1))
    assert nodes(engine, asks("c")) == ["n1"]
    assert said(engine, asks("c"))[0] == "node(s) didn't match PersistentVolume's node affinity"
    decision = engine.decide(asks("c"))
    assert (decision.node, decision.volumes) == ("n1", None)
    assert nodes(world(*bound("c")), asks("c")) == ["n0", "n1", "n2"]


def test_zones_of_a_volume_count_on_nodes_that_have_one() -> None:
    engine = world(*bound("c", labels=((ZONE, "b__c"),)))
    assert nodes(engine, asks("c")) == ["n1", "n2"]
    assert said(engine, asks("c"))[0] == "node(s) had no available volume zone"
    older = world(*bound("c", labels=(("failure-domain.beta.kubernetes.io/zone", "a"),)))
    assert nodes(older, asks("c")) == ["n0", "n2"]


def test_a_claim_for_one_pod_alone_is_had_once() -> None:
    claim, volume = bound("c")
    engine = world(replace(claim, modes=("ReadWriteOncePod",)), volume)
    first = engine.decide(asks("c", uid="first"))
    engine.reserve(first)
    assert (
        said(engine, asks("c"))
        == [
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
        ]
        * 3
    )
    engine.cluster.release("first")
    assert engine.decide(asks("c")).node


# Disks that a pod names itself


@pytest.mark.parametrize(
    ("kind", "read_only", "conflict"),
    [
        ("gce-pd", False, True),
        ("gce-pd", True, False),
        ("aws-ebs", True, True),
        ("iscsi", False, True),
        ("iscsi", True, False),
        ("rbd", False, True),
        ("rbd", True, False),
        ("cinder", False, False),
    ],
)
def test_one_disk_twice_on_a_node(kind: DiskKind, read_only: bool, conflict: bool) -> None:
    disk = Disk(kind, "d", read_only, ("m1", "m2") if kind == "rbd" else ())
    engine = world()
    there = replace(asks(uid="there", disks=(disk,)))
    pinned = replace(there.scheduling, node=NodeRules(node_name="n0"))
    engine.reserve(engine.decide(replace(there, scheduling=pinned)))
    other = replace(disk, monitors=("m2", "m3") if kind == "rbd" else ())
    assert nodes(engine, asks(disks=(other,))) == (["n1", "n2"] if conflict else ["n0", "n1", "n2"])
    assert nodes(engine, asks(disks=(replace(other, name="e"),))) == ["n0", "n1", "n2"]
    if conflict:
        assert said(engine, asks(disks=(other,)))[0] == "node(s) had no available disk"
    if kind == "rbd":
        assert nodes(engine, asks(disks=(replace(disk, monitors=("m9",)),))) == ["n0", "n1", "n2"]


# Limits


def test_a_driver_attaches_no_more_volumes_than_it_can() -> None:
    claims = [one for name in "abc" for one in bound(name, driver="csi", handle=name)]
    engine = world(*claims, NodeDrivers("n0", (("csi", 2), ("other", 1))), NodeDrivers("n1", (("csi", 0),)))
    assert nodes(engine, asks("a", "b")) == ["n0", "n2"]
    assert said(engine, asks("a", "b", "c")) == ["node(s) exceed max volume count"] * 2 + [""]
    engine.reserve(replace(engine.decide(asks("a", uid="there")), node="n0"))
    # One volume is attached once, however many pods have it.
    assert nodes(engine, asks("a", "b")) == ["n0", "n2"]
    assert nodes(engine, asks("b", "c")) == ["n2"]
    storage = engine.cluster.storage
    assert storage is not None
    storage.put(Attachment("x", "n0", "csi", "v-c"))
    assert nodes(engine, asks("b")) == ["n2"]
    storage.drop(Attachment("x"))
    assert nodes(engine, asks("b")) == ["n0", "n2"]


def test_disks_that_csi_drivers_have_taken_over_count_too() -> None:
    limited = NodeDrivers("n0", (("ebs.csi.aws.com", 1), ("pd.csi.storage.gke.io", 0)))
    claim, volume = bound("c", plugin="kubernetes.io/gce-pd", handle="pd")
    engine = world(limited, claim, volume)
    two = (Disk("aws-ebs", "v1"), Disk("aws-ebs", "v2"))
    assert nodes(engine, asks(disks=two)) == ["n1", "n2"]
    assert nodes(engine, asks(disks=two[:1])) == ["n0", "n1", "n2"]
    assert nodes(engine, asks("c")) == ["n1", "n2"]


def test_a_driver_may_want_none_of_its_volumes_where_it_is_not() -> None:
    """One that does not say how many it can attach is there all the same."""
    claim, volume = bound("c", driver="csi.example.com", handle="h")
    there = NodeDrivers("n0", (("csi.example.com", None),)), NodeDrivers("n1", (("other", 9),))
    required = StorageDriver("csi.example.com", required=True)
    for stored in ((claim, volume), (LATE, late())):
        assert nodes(world(*stored, *there), asks("c")) == ["n0", "n1", "n2"]
        engine = world(*stored, *there, required)
        assert nodes(engine, asks("c")) == ["n0"]
        assert said(engine, asks("c"))[1] == "csi.example.com CSI driver is not installed on the node"
    migrated, disk = bound("m", plugin="kubernetes.io/aws-ebs", handle="vol-1")
    engine = world(migrated, disk, NodeDrivers("n0"), StorageDriver("ebs.csi.aws.com", required=True))
    # A node that tells of no drivers at all has its volumes in the old way.
    assert nodes(engine, asks("m")) == ["n1", "n2"]


def test_a_volume_that_is_not_there_yet_is_one_more() -> None:
    engine = world(LATE, late(), NodeDrivers("n0", (("csi.example.com", 0),)))
    assert nodes(engine, asks("c")) == ["n1", "n2"]


# Claims that wait for their first consumer


def free(name: str, size: int = 5, **fields: object) -> Volume:
    return Volume(name, phase="Available", storage_class="late", size=size, modes=ONCE, **fields)  # type: ignore[arg-type] # its own


def test_the_smallest_volume_that_will_do_is_bound() -> None:
    nothing = StorageClass("late", "kubernetes.io/no-provisioner", waits=True)
    engine = world(
        nothing, late(), free("big", 9), free("small", 6), free("tiny", 4), free("there", 5, affinity=ON_N1)
    )
    decision = engine.decide(asks("c"))
    assert decision.volumes == VolumePlan("n0", ((("default", "c"), "small"),))
    wants = Selector((Requirement("tier", "In", ("gold",)),))
    engine = world(
        nothing, late(selector=wants), free("a"), free("b", labels=(("tier", "gold"),), affinity=ON_N1)
    )
    assert nodes(engine, asks("c")) == ["n1"]
    assert said(engine, asks("c"))[0] == "node(s) didn't find available persistent volumes to bind"


@pytest.mark.parametrize(
    "volume",
    [
        free("v", 4),
        replace(free("v"), phase="Released"),
        replace(free("v"), block=True),
        replace(free("v"), modes=("ReadOnlyMany",)),
        replace(free("v"), deleting=True),
        replace(free("v"), attributes_class="gold"),
        replace(free("v"), storage_class="other"),
        replace(free("v"), claim=("default", "another")),
        replace(free("v"), claim=("default", "c"), claim_uid="of an earlier claim"),
    ],
)
def test_a_volume_that_will_not_do_is_left_alone(volume: Volume) -> None:
    engine = world(StorageClass("late", "kubernetes.io/no-provisioner", waits=True), late(), volume)
    assert nodes(engine, asks("c")) == []


def test_a_volume_that_is_promised_to_the_claim_is_the_one() -> None:
    promised = replace(free("mine", 50, affinity=ON_N1), claim=("default", "c"))
    engine = world(LATE, late(), free("smaller"), promised)
    assert engine.decide(asks("c")).volumes is not None
    (answer,) = engine.ask(asks("c"), ["n1"])
    assert answer.admitted
    # On other nodes it is not to be had, and none is provisioned beside it where nobody can.
    nobody = world(StorageClass("late", "", waits=True), late(), free("smaller"), promised)
    assert nodes(nobody, asks("c")) == ["n1"]


def test_a_volume_is_decided_about_once() -> None:
    """Before the API server shows it; when the pod is taken back, the volume is free again."""
    engine = world(
        StorageClass("late", "kubernetes.io/no-provisioner", waits=True), late("a"), late("b"), free("v")
    )
    decision = engine.decide(asks("a", uid="first"))
    engine.reserve(decision)
    assert engine.decide(asks("b", uid="second")).node is None
    # The claim itself may be had by others of its pods.
    assert engine.decide(asks("a", uid="third")).volumes == VolumePlan("n0", ((("default", "a"), "v"),))
    engine.cluster.release("first")
    assert engine.decide(asks("b", uid="second")).node == "n0"


def test_claims_are_provisioned_where_the_class_allows_it() -> None:
    engine = world(replace(LATE, topologies=(((ZONE, ("b", "c")),),)), late())
    assert nodes(engine, asks("c")) == ["n1"]
    decision = engine.decide(asks("c"))
    assert decision.volumes == VolumePlan("n1", (), (("default", "c"),))
    # A second pod with the claim goes along.
    everywhere = world(LATE, late())
    everywhere.reserve(
        replace(
            everywhere.decide(asks("c", uid="first")),
            node="n2",
            volumes=VolumePlan("n2", (), (("default", "c"),)),
        )
    )
    assert nodes(everywhere, asks("c")) == ["n2"]
    # So does one that comes when the node is written on it.
    assert nodes(world(LATE, late(selected_node="n1")), asks("c")) == ["n1"]


def test_a_driver_that_tracks_its_space_is_believed() -> None:
    tracks = StorageDriver("csi.example.com", tracks=True)
    in_b = Selector((Requirement(ZONE, "In", ("b",)),))
    engine = world(
        LATE,
        late(size=10),
        tracks,
        StorageCapacity("1", "late", 9, Selector()),
        StorageCapacity("2", "late", 10, in_b),
        StorageCapacity("3", "late", None, Selector()),
        StorageCapacity("4", "late", 99, None),
        StorageCapacity("5", "other", 99, Selector()),
    )
    assert nodes(engine, asks("c")) == ["n1"]
    assert said(engine, asks("c"))[0] == "node(s) did not have enough free storage"
    assert nodes(world(LATE, late(size=10), replace(tracks, tracks=False)), asks("c")) == ["n0", "n1", "n2"]


def test_of_nodes_with_room_for_its_volumes_the_emptiest_is_taken() -> None:
    """As kube-scheduler v1.37 does, for pods that own nothing of a node; its numbers are what its own code gives."""
    tracks = StorageDriver("csi.example.com", tracks=True)

    def of(label: str, name: str, total: int) -> StorageCapacity:
        return StorageCapacity(
            name, "late", total, Selector((Requirement("host", "In", (label,)),)), total=total
        )

    two = late("c", 10), late("d", 20)
    engine = world(LATE, *two, tracks, of("n0", "0", 41), of("n1", "1", 300), of("n2", "2", 20))
    sharing = replace(asks("c", "d"), containers=(Container("app", (("cpu", 10**8),)),))
    rules = volume_rules(engine.cluster.storage, engine.cluster.placed_pods.volume_users, sharing)
    assert isinstance(rules, VolumeRules)
    assert [rules.space_score(engine.cluster.by_name[name].facts) for name in ("n0", "n1", "n2")] == [
        27,
        90,
        0,
    ]
    assert engine.decide(sharing).node == "n1"
    # Whoever owns CPUs goes where it is aligned and strands least; and earlier releases did not look at space.
    owner = replace(pod("owner", 2), scheduling=sharing.scheduling)
    assert engine.decide(owner).node == "n0"
    engine.cluster.follow_release("v1.36.4")
    assert engine.decide(sharing).node == "n0"


def test_volumes_that_are_there_already_count_by_what_they_leave() -> None:
    nothing = StorageClass("late", "kubernetes.io/no-provisioner", waits=True)
    here = tuple(
        free(f"v{number}", size, affinity=(NodeTerm((Requirement("host", "In", (f"n{number}",)),)),))
        for number, size in enumerate((5, 9))
    )
    engine = world(nothing, late(size=5), *here)
    rules = volume_rules(engine.cluster.storage, engine.cluster.placed_pods.volume_users, asks("c"))
    assert isinstance(rules, VolumeRules)
    scores = [rules.space_score(engine.cluster.by_name[name].facts) for name in ("n0", "n1", "n2")]
    assert scores == [0, 45, 0]


def test_what_is_gone_is_forgotten() -> None:
    claim, volume = bound("c", affinity=ON_N1)
    engine = world(claim, volume, LATE, StorageDriver("d"), NodeDrivers("n0"), StorageCapacity("1", "late"))
    storage = engine.cluster.storage
    assert storage is not None
    for one in (volume, claim, LATE, StorageDriver("d"), NodeDrivers("n0"), StorageCapacity("1", "late")):
        storage.drop(one)
        storage.drop(one)
    assert not storage.claims
    assert not storage.volumes
    assert not storage.classes
    assert not storage.has_drivers("n0")


def test_nothing_is_left_of_pods_that_have_come_and_gone() -> None:
    """Claims of ephemeral volumes are named after their pods: a scheduler that is left alone sees millions of them."""
    users = VolumeUsers()
    for uid in ("a", "b"):
        users.place(asks("shared", "shared", f"{uid}-scratch", uid=uid), "n0")
    users.remove("a")
    assert users.has_other(("default", "shared"), "a")
    users.remove("b")
    assert not any(vars(users).values())


def test_a_lab_without_storage_cannot_judge_claims() -> None:
    engine = Engine(Cluster((facts_of("n0", gpu_node()), gpu_node()) for _ in range(1)))
    assert "the pod waits for 1 volume claim (c) to be bound" in message(engine, asks("c"))
