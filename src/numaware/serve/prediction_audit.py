"""Compares what was predicted for each pod with what its kubelet did.

The prediction is an annotation of the pod, so a scheduler that has just started audits the pods of the one before it. The
agent's annotation of where the pod is, or the kubelet's refusal, settles it. A miss is kept as a file for `numaware ledger
replay`; a refusal also goes to the storm guard, which holds the template off that node and detects storms. Of pods that others
have bound only the guard hears: nobody here has promised anything for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog

from numaware.diagnose.rules.storms import Storm
from numaware.kube.pods import LivePod
from numaware.schedule import ledger, miss
from numaware.schedule.cluster import Cluster
from numaware.schedule.ledger import Observation, Outcome, Prediction
from numaware.schedule.storm import StormGuard
from numaware.twin.node import Node

_log = structlog.get_logger(__name__)

# Nodes as they were estimated to be before a pod came, until its outcome is known; the oldest go first.
_MOST_OPEN = 10_000
# Files of misses in the folder; a scheduler that is wrong all the time must not fill the disk.
_MOST_FILES = 1000


class Audited(NamedTuple):
    """The outcome of one pod, None where another has bound it, and the storm if this refusal makes one.

    `again`: the storm was told of before, and now with what would end it.
    """

    outcome: Outcome | None
    storm: Storm | None = None
    again: bool = False


class PredictionAudit:
    """Audits every pod once. `folder` is where misses are kept, None to keep none."""

    def __init__(
        self, cluster: Cluster, guard: StormGuard, clock: Callable[[], float], folder: Path | None = None
    ) -> None:
        self._cluster = cluster
        self._guard = guard
        self._clock = clock
        self._folder = folder
        self._files = len(list(folder.glob("*.json"))) if folder and folder.is_dir() else 0
        self._sent: dict[str, tuple[str, Node]] = {}
        self._audited: set[str] = set()
        # Pods that end or are being deleted: what they hold may be free already.
        self._leaving: set[str] = set()

    def sent(self, uid: str, name: str, before: Node) -> None:
        """A pod is on its way to the node called `name`, which is estimated to be in this state."""
        if len(self._sent) >= _MOST_OPEN:
            del self._sent[next(iter(self._sent))]
        self._sent[uid] = name, before

    def seen(self, pod: LivePod) -> Audited | None:
        """A pod as it is now; None unless it is known, for the first time, what became of it."""
        if pod.deletion is not None or pod.finished:
            self._leaving.add(pod.uid)
        observed = observation_of(pod)
        if observed is None or pod.uid in self._audited:
            return None
        self._audited.add(pod.uid)
        prediction = prediction_of(pod)
        if prediction is None and observed.placement is not None:
            # Another scheduler's pod that runs: nobody has promised anything.
            return None
        where, before = self._sent.pop(pod.uid, ("", None))
        again = self._guard.has_storm(pod.pod)
        storm = self._storm(pod, observed) if observed.placement is None else None
        if prediction is None and where != pod.node:
            return Audited(None, storm, again)
        outcome = ledger.compare(prediction, observed)
        if prediction is not None and outcome != "match":
            self._keep(pod, prediction, observed, before)
        return Audited(outcome, storm, again)

    def gone(self, uid: str) -> None:
        """The pod is deleted."""
        self._sent.pop(uid, None)
        self._audited.discard(uid)
        self._leaving.discard(uid)

    def _storm(self, pod: LivePod, observed: Observation) -> Storm | None:
        member = self._cluster.by_name.get(pod.node)
        if member is None:
            return None
        return self._guard.refused(pod.pod, member, observed.reason, int(1000 * self._clock()))

    def _keep(self, pod: LivePod, prediction: Prediction, observed: Observation, before: Node | None) -> None:
        _log.warning(
            "prediction missed",
            pod=pod.full_name,
            node=pod.node,
            outcome=ledger.compare(prediction, observed),
            reason=observed.reason,
        )
        if self._folder is None or before is None or self._files >= _MOST_FILES:
            return
        bundle = miss.bundle(before, pod.pod, prediction, observed, self._departed(before, pod.node))
        name = re.sub(r"[^A-Za-z0-9.-]", "_", f"{pod.namespace}_{pod.name}_{pod.uid}")[:200]
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / f"{name}.json").write_bytes(msgspec.json.encode(bundle) + b"\n")
        except OSError as error:
            _log.warning("could not keep a miss", folder=str(self._folder), error=str(error))
            return
        self._files += 1

    def _departed(self, before: Node, name: str) -> list[str]:
        """Pods that were on the node when the pod was sent there, and have let go of it since, or are about to."""
        member = self._cluster.by_name.get(name)
        here = member.pods if member is not None else {}
        return [uid for uid in before.state.pods if uid not in here or uid in self._leaving]


def prediction_of(pod: LivePod) -> Prediction | None:
    """What was predicted for the pod, as its annotation says."""
    placement = ledger.read(pod.predicted, ledger.PREDICTED)
    return None if placement is None else Prediction(pod.uid, pod.full_name, pod.node, placement)


def observation_of(pod: LivePod) -> Observation | None:
    """What the kubelet did, as far as it is known."""
    if pod.refused:
        return Observation(None, pod.reason)
    placement = ledger.read(pod.observed, ledger.OBSERVED)
    return None if placement is None else Observation(placement)
