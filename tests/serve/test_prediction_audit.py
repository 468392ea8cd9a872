from __future__ import annotations

import json
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
    audit.sent("a", before)
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


def test_a_pod_of_another_scheduler_is_judged_only_when_a_kubelet_refuses_it() -> None:
    audit, _ = judge()
    foreign = live(pod("a", 4), node="n0")
    assert audit.seen(msgspec.structs.replace(foreign, observed="[]")) is None
    judged = audit.seen(refused(live(pod("b", 4), node="n0")))
    assert judged is not None
    assert judged.outcome == "rejected"


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
    audit.sent("a", before)
    judged = audit.seen(refused(sent(before, pod("a", 4))))
    assert judged is not None
    assert blocked.read_text(encoding="utf-8") == "not a folder"
