"""One pod on one node: the twin's verdict, where everything would go, why not, and what would help.

`explain` is what `numaware explain`, the console, `lint --against` and `diagnose` ask; `to_builtins` is its JSON.
"""

from __future__ import annotations

from typing import Any

import msgspec

from numaware.diagnose.explain.causes import Cause, causes
from numaware.diagnose.explain.caveats import caveats, unoffered_devices
from numaware.diagnose.explain.change import Change, admits
from numaware.diagnose.explain.counterfactual import changes
from numaware.diagnose.explain.served_by_dra import NO_DRA, DraPart, dra_parts, served_here
from numaware.diagnose.explain.served_by_dra import to_builtins as dra_to_builtins
from numaware.diagnose.finding import Message
from numaware.diagnose.texts import Lang, Words, say
from numaware.twin.account import ContainerPlacement, container_placement
from numaware.twin.errors import EndlessLoop, KubeletPanic
from numaware.twin.node import Merge, Node, Verdict
from numaware.twin.rules import modelled_as
from numaware.twin.topology.hints import Hint
from numaware.workload.dra.known import DraObjects
from numaware.workload.pod import Pod

# What the API server has as the reason of a pod that no kubelet is asked about.
UNSCHEDULABLE = "Unschedulable"


class Explanation(msgspec.Struct, frozen=True):
    """The whole answer. `node` is the node before the pod came, `after` what it is afterwards, `merges` the evidence.

    `admitted_when_empty` tells a node that is too full from one that is too small, or too strict, for the pod.
    """

    name: str
    pod: Pod
    node: Node
    after: Node
    admitted: bool
    admitted_when_empty: bool
    reason: str
    message: Words
    merges: tuple[Merge, ...]
    placements: tuple[ContainerPlacement, ...]
    why: tuple[Cause, ...]
    changes: tuple[Change, ...]
    warnings: tuple[Message, ...]
    dra: tuple[DraPart, ...] = ()


def explain(
    name: str,
    node: Node,
    pod: Pod,
    *,
    totals: bool = True,
    dra: DraObjects = NO_DRA,
    served: tuple[str, ...] | None = None,
) -> Explanation:
    """Ask the twin about a pod on the node called `name`: the answer and all that there is to say about it.

    A device that no plugin of the node offers, and no class of `dra` serves, is a reason, too, unless somebody else looks after
    `totals`: an engine, or the scheduler that bound the pod. Who knows what the node offers in all tells what DRA has `served`.
    """
    merges: list[Merge] = []
    crashed = None
    try:
        verdict = node.admit(pod, merges.append)
    except KubeletPanic as crash:
        dealt = "cpu" if isinstance(crash, EndlessLoop) else ""
        verdict = Verdict(False, "KubeletPanic", str(crash), node, node.state, resource=dealt)
        crashed = Message("crash", {"panic": verdict.message})
    refused = not verdict.admitted
    if served is None:
        served = served_here(node, pod, dra)
    unoffered = tuple(unoffered_devices(node, pod, served)) if totals else ()
    fresh = Node.fresh(node.kubelet.hardware, node.kubelet.config)
    return Explanation(
        name=name,
        pod=pod,
        node=node,
        after=node if unoffered else verdict.node,
        admitted=not (refused or unoffered),
        admitted_when_empty=not unoffered and admits(fresh, pod),
        reason=verdict.reason or (UNSCHEDULABLE if unoffered else ""),
        message=crashed or verdict.message or next(iter(unoffered), ""),
        merges=tuple(merges),
        placements=tuple(
            container_placement(
                node.kubelet, node.state if unoffered else verdict.held, pod.uid, container.name
            )
            for container in pod.in_order
        ),
        why=(
            *(causes(node, pod, verdict, merges) if refused else ()),
            *(Cause(lack.facts["resource"], (), (), lack) for lack in unoffered),
        ),
        # No smaller request, other policy or leaving pod brings a device that is not there.
        changes=changes(node, pod, verdict) if refused and not unoffered else (),
        warnings=tuple(caveats(node, pod, merges, admitted=verdict.admitted and not unoffered)),
        dra=tuple(dra_parts(name, node, node if unoffered else verdict.node, pod, dra, served)),
    )


def to_builtins(explanation: Explanation, spec_path: str = "spec", lang: Lang = "en") -> dict[str, Any]:
    """The documented JSON shape; `spec_path` is where the pod spec stands in the user's document."""
    layout, version = explanation.node.kubelet.layout, explanation.node.kubelet.config.version
    hints = {merge.container: merge.best for merge in explanation.merges}

    def hint(merged: Hint | None) -> dict[str, Any] | None:
        if merged is None:
            return None
        mask = None if merged.mask is None else list(layout.node_ids(merged.mask))
        return {"mask": mask, "preferred": merged.preferred}

    return {
        "pod": {"namespace": explanation.pod.namespace, "name": explanation.pod.name},
        "node": explanation.name,
        "kubelet": {"version": version, "modelledAs": modelled_as(version) or None},
        "admitted": explanation.admitted,
        "admittedWhenEmpty": explanation.admitted_when_empty,
        "reason": explanation.reason,
        "message": say(explanation.message, lang),
        "containers": [
            {
                **placed.to_builtins(),
                "devices": {
                    resource: {str(numa): count for numa, count in counts}
                    for resource, counts in placed.devices
                },
                "hint": hint(hints.get(placed.name, hints.get(None))),
            }
            for placed in explanation.placements
        ],
        "why": [
            {
                "resource": cause.resource,
                "wants": [list(nodes) for nodes in cause.wants],
                "blockedBy": [say(one, lang) for one in cause.blocked_by],
                "text": say(cause.text, lang),
            }
            for cause in explanation.why
        ],
        "changes": [
            {"kind": change.kind, "text": say(change.text, lang), "patch": _nested(change, spec_path)}
            for change in explanation.changes
        ],
        "dra": [dra_to_builtins(part, say(part.text, lang)) for part in explanation.dra],
        "warnings": [say(one, lang) for one in explanation.warnings],
    }


def _nested(change: Change, spec_path: str) -> Any:
    """A request patch as one of the user's own document; inside a list (Volcano's tasks) it stays one of the pod."""
    patch: Any = change.patch
    if change.kind == "request":
        for part in reversed(("spec" if "[" in spec_path else spec_path).split(".")):
            patch = {part: patch}
    return patch
