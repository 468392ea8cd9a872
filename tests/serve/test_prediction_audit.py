from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from numaware.kube.pods import LivePod
from numaware.schedule import ledger
from numaware.schedule.miss import again
from numaware.schedule.storm import StormGuard
from numaware.serve.prediction_audit import PredictionAudit
from numaware.twin.node import Node
from numaware.workload.pod import Pod
from support.live_pods import live
from support.small_clusters import cluster_of, gpu_node, owned
from support.twin_nodes import pod


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def sent(node: Node, of: Pod) -> LivePod:
    """The pod as it is after it was bound: with its prediction."""
    placement = ledger.placement_of(node.admit(of).node, of)
    return live(of, node="n0", predicted=ledger.encode(placement))


def refused(of: LivePod, reason: str = "TopologyAffinityError") -> LivePod:
    return msgspec.structs.replace(of, phase="Failed", reason=reason)


def judge(guard: StormGuard | None = None, folder: Path | None = None) -> tuple[PredictionAudit, Clock]:
    clock = Clock()
    return PredictionAudit(cluster_of(gpu_node()), guard or StormGuard(), clock, folder), clock


def test_a_placement_that_came_as_predicted_is_a_match_and_counts_once() -> None:
    audit, _ = judge()
    bound = sent(gpu_node(), pod("a", 4))
    assert audit.seen(bound) is None
    observed = msgspec.structs.replace(bound, observed=bound.predicted)
    judged = audit.seen(observed)
    assert judged is not None
    assert judged.outcome == "match"
    assert audit.seen(observed) is None


def test_another_numa_node_than_predicted_is_kept_as_a_file_that_can_be_replayed(tmp_path: Path) -> None:
    audit, _ = judge(folder=tmp_path / "misses")
    before = gpu_node()
    bound = sent(before, pod("a", 4))
    audit.sent("a", "n0", before)
    other = '[{"zone":"node-1","amount":{"cpu":"4"},"cpus":"8-11"}]'
    judged = audit.seen(msgspec.structs.replace(bound, observed=other))
    assert judged is not None
    assert judged.outcome == "wrong_zone"
    (file,) = (tmp_path / "misses").iterdir()
    found = again(file.read_bytes(), str(file))
    assert (found.outcome, found.explained) == ("wrong_zone", False)
    assert json.loads(file.read_text(encoding="utf-8"))["exact"]


def test_a_refusal_of_what_was_promised_is_a_miss_and_goes_to_the_guard() -> None:
    guard = StormGuard()
    audit, clock = judge(guard)
    template = owned(pod("a", 4), "StatefulSet", "vmstorage")
    storms = []
    for number in range(4):
        clock.now = float(number)
        failed = refused(sent(gpu_node(), msgspec.structs.replace(template, uid=f"u{number}")))
        judged = audit.seen(failed)
        assert judged is not None
        assert judged.outcome == "rejected"
        storms.append(judged.storm)
    assert [storm is not None for storm in storms] == [False, False, True, False]
    assert storms[2] is not None
    assert storms[2].owner == "StatefulSet default/vmstorage"
    assert guard.concerns(template)


@pytest.mark.parametrize("reason", ["Evicted", "NodeAffinity", "Preempting", ""])
def test_pods_that_failed_for_other_reasons_are_not_judged(reason: str) -> None:
    audit, _ = judge()
    assert audit.seen(refused(sent(gpu_node(), pod("a", 4)), reason)) is None


def test_of_a_pod_that_another_has_bound_only_the_guard_hears() -> None:
    guard = StormGuard()
    audit, _ = judge(guard)
    foreign = live(pod("a", 4), node="n0")
    assert audit.seen(msgspec.structs.replace(foreign, observed="[]")) is None
    template = owned(pod("b", 4), "StatefulSet", "web")
    judged = audit.seen(refused(live(template, node="n0")))
    assert judged is not None
    assert judged.outcome is None
    assert guard.concerns(template)


def test_a_pod_that_was_sent_to_one_node_and_bound_by_another_to_another_is_not_ours() -> None:
    audit, _ = judge()
    audit.sent("a", "n0", gpu_node())
    judged = audit.seen(refused(live(pod("a", 4), node="n1")))
    assert judged is not None
    assert judged.outcome is None


def test_a_refusal_of_a_pod_without_a_prediction_is_ours_where_we_sent_it() -> None:
    audit, _ = judge()
    audit.sent("a", "n0", gpu_node())
    judged = audit.seen(refused(live(pod("a", 4), node="n0"), "OutOfcpu"))
    assert judged is not None
    assert judged.outcome == "rejected"


@pytest.mark.parametrize("ends", ["deleted", "being deleted", "ended"])
def test_a_miss_that_a_deletion_explains_is_said_to_be_one(ends: str, tmp_path: Path) -> None:
    """The kubelet let go of a pod before the API server told of it, and gave its CPUs to the next."""
    first, asking = pod("first", 2), pod("a", 4)
    before = gpu_node().admit(first).node
    cluster = cluster_of(gpu_node())
    audit = PredictionAudit(cluster, StormGuard(), Clock(), tmp_path)
    if ends != "deleted":
        cluster.place(first, "n0")
        leaving = live(first, node="n0")
        changes = {"deletion": datetime.now(UTC)} if ends == "being deleted" else {"phase": "Succeeded"}
        audit.seen(msgspec.structs.replace(leaving, **changes))
    audit.sent("a", "n0", before)
    real = ledger.placement_of(gpu_node().admit(asking).node, asking)
    bound = sent(before, asking)
    audited = audit.seen(msgspec.structs.replace(bound, observed=ledger.encode(real)))
    assert audited is not None
    assert audited.outcome == "wrong_cpus"
    (file,) = tmp_path.iterdir()
    found = again(file.read_bytes(), str(file))
    assert (found.explained, found.without) == (True, ("default/first",))
    # A file of an earlier release does not say who had gone.
    old = json.loads(file.read_text(encoding="utf-8"))
    del old["departed"]
    assert again(json.dumps(old).encode(), "old").without == ("default/first",)
    # One that says that nobody had is not explained by a guess.
    assert not again(json.dumps({**old, "departed": []}).encode(), "none").explained


def test_annotations_that_somebody_else_wrote_are_no_prediction() -> None:
    audit, _ = judge()
    odd = live(pod("a", 4), node="n0", predicted="not json")
    assert audit.seen(msgspec.structs.replace(odd, observed="[]")) is None
    assert audit.seen(msgspec.structs.replace(odd, uid="b", observed="{")) is None


def test_a_pod_that_is_gone_is_forgotten_and_one_of_its_uid_judged_anew() -> None:
    audit, _ = judge()
    failed = refused(sent(gpu_node(), pod("a", 4)))
    assert audit.seen(failed) is not None
    audit.gone("a")
    assert audit.seen(failed) is not None


def test_a_full_or_unwritable_folder_loses_the_file_and_nothing_else(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder", encoding="utf-8")
    audit, _ = judge(folder=blocked / "misses")
    before = gpu_node()
    audit.sent("a", "n0", before)
    judged = audit.seen(refused(sent(before, pod("a", 4))))
    assert judged is not None
    assert blocked.read_text(encoding="utf-8") == "not a folder"
