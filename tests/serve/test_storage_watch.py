"""Which pods that wait are asked again when something about volumes is new."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from numaware.kube.pods import LivePod
from numaware.schedule.cluster import Cluster
from numaware.schedule.engine import Engine
from numaware.schedule.storage import Storage, Stored
from numaware.serve.cluster_cache import ClusterCache
from numaware.serve.storage_watch import StorageFeed
from numaware.workload.scheduling import Scheduling
from numaware.workload.storage import (
    Attachment,
    Claim,
    NodeDrivers,
    StorageCapacity,
    StorageClass,
    StorageDriver,
    Volume,
)
from support.live_pods import live
from support.twin_nodes import pod

FREE = Claim("default", "free", uid="1", storage_class="fast")
HELD = Claim("default", "held", uid="2", storage_class="fast", volume="v", bound=True)
ALL = {"waits-for-free", "waits-for-held", "waits-for-none"}


def waiting(*claims: str) -> LivePod:
    found = live(pod(f"waits-for-{claims[0] if claims else 'nothing'}", 2))
    return replace(found, pod=replace(found.pod, scheduling=Scheduling(claims=claims, scheduler="numaware")))


@pytest.fixture
def feed() -> StorageFeed:
    storage = Storage()
    cache = ClusterCache(Engine(Cluster((), storage=storage)), lambda: 0.0)
    for claim in (FREE, HELD):
        storage.put(claim)
    for one in (waiting("free"), waiting("held"), waiting("none"), waiting()):
        cache.put_pod(one)
    return StorageFeed(cache, storage)


@pytest.mark.parametrize(
    ("news", "asked"),
    [
        (Claim("default", "none"), {"waits-for-none"}),
        (replace(FREE, volume="w"), {"waits-for-free"}),
        (Claim("other", "free"), set()),
        (Volume("w", storage_class="fast"), {"waits-for-free"}),
        (Volume("w", storage_class="slow"), set()),
        (Volume("v", storage_class="fast", claim=HELD.key), {"waits-for-held"}),
        (Volume("w", storage_class="slow", claim=FREE.key, claim_uid="1"), {"waits-for-free"}),
        (Volume("w", storage_class="fast", claim=("other", "somebody")), set()),
        (StorageClass("fast"), {"waits-for-free"}),
        (StorageClass("slow"), set()),
        (StorageCapacity("c", "fast"), {"waits-for-free"}),
        (StorageCapacity("c", "slow"), set()),
        (NodeDrivers("n0"), ALL - {"waits-for-none"}),
        (StorageDriver("csi"), ALL - {"waits-for-none"}),
        (Attachment("a", "n0"), ALL - {"waits-for-none"}),
    ],
)
def test_only_pods_whose_claims_have_to_do_with_the_news_are_asked_again(
    feed: StorageFeed, news: Stored, asked: set[str]
) -> None:
    assert feed.put(None, news) == asked


def test_who_goes_concerns_those_whom_it_concerned(feed: StorageFeed) -> None:
    assert feed.put(HELD, None) == {"waits-for-held"}
    assert feed.put(Volume("w", storage_class="fast"), None) == {"waits-for-free"}


def test_a_volume_that_changes_concerns_those_of_before_and_those_of_now(feed: StorageFeed) -> None:
    before = Volume("v", storage_class="fast", claim=HELD.key, claim_uid="2")
    assert feed.put(before, replace(before, claim=None)) == {"waits-for-free", "waits-for-held"}


def test_when_all_is_known_everybody_with_claims_is_asked(feed: StorageFeed) -> None:
    assert feed.know() == ALL
