"""An explanation of one node, held against the engine: only changes stay that the engine, too, says would admit the pod.

`diagnose/explain` asks the kubelet's twin alone, which knows nothing of taints, other pods or what the node has left in all. The
console's explanations, `numaware whatif --explain` and `numaware explain pod` go through here, so that nothing is proposed
that `Engine.ask` refuses when it is tried.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from numaware.diagnose.explain.causes import Cause
from numaware.diagnose.explain.change import Change
from numaware.diagnose.explain.explanation import UNSCHEDULABLE, Explanation, explain
from numaware.diagnose.finding import Message
from numaware.diagnose.reason import Reason
from numaware.schedule.engine import Engine
from numaware.schedule.parts_by_dra import served_on
from numaware.schedule.trial_policies import AS_THEY_ARE, TrialPolicies
from numaware.workload.pod import Pod

# What a change of the kubelet's configuration is called among the policies to try.
_TRIED = {
    "topologyManagerPolicy": "policy",
    "topologyManagerScope": "scope",
    "topologyManagerPolicyOptions": "topology_options",
    "cpuManagerPolicyOptions": "cpu_options",
}


def explained_by(engine: Engine, name: str, pod: Pod) -> Explanation:
    """What the node called `name` says to the pod, with the changes that would admit it there."""
    node, dra = engine.cluster.by_name[name].node, engine.cluster.dra
    served = served_on(engine.cluster, pod, name)
    explanation = explain(name, node, pod, totals=False, dra=dra, served=served)
    # Of devices that come by DRA the explanation tells itself; whether they can be had is kube-scheduler's to say.
    (answer,) = engine.ask(pod, [name], but_for_dra=True)
    kept = tried_changes(engine, explanation, but_for_dra=True)
    if not answer.reasons or not explanation.admitted:
        return replace(explanation, changes=kept)
    return replace(
        explanation,
        after=explanation.node,
        admitted=False,
        reason=UNSCHEDULABLE,
        message=Message("reasons", {"reasons": answer.reasons}),
        placements=(),
        why=tuple(
            Cause(_subject(reason), (), (), Message("reasons", {"reasons": (reason,)}))
            for reason in answer.reasons
        ),
    )


def _subject(reason: Reason) -> str:
    return str(reason.named_facts.get("resource", "node"))


def tried_changes(
    engine: Engine,
    explanation: Explanation,
    policies: TrialPolicies = AS_THEY_ARE,
    *,
    but_for_dra: bool = False,
) -> tuple[Change, ...]:
    """The changes of an explanation that was given for kubelets with these policies, as far as the engine agrees to them; for who
    leaves DRA to kube-scheduler, to all the rest of the pod.
    """
    return tuple(
        change
        for change in explanation.changes
        if _is_admitted(engine, explanation, change, policies, but_for_dra=but_for_dra)
    )


def _is_admitted(
    engine: Engine, explanation: Explanation, change: Change, policies: TrialPolicies, *, but_for_dra: bool
) -> bool:
    leaving = [victim["uid"] for victim in change.patch["evict"]] if change.kind == "evict" else []
    if change.kind in ("policy", "option"):
        settings: dict[str, Any] = {
            _TRIED[field]: tuple(sorted(value.items())) if isinstance(value, dict) else value
            for field, value in change.patch.items()
        }
        policies = replace(policies, **settings)
    with engine.cluster.without(explanation.pod.uid, *leaving):
        (answer,) = engine.ask(change.pod, [explanation.name], policies, but_for_dra=but_for_dra)
    return answer.admitted
