"""Findings about the admissions in a log: why hints did not go together, or what became of a pod that was let in.

`diagnosis` asks for each case, which is all admissions that went alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce
from itertools import combinations
from operator import or_
from typing import Any

from numaware.diagnose.evidence import log_evidence
from numaware.diagnose.evidence.kubelet_facts import KubeletFacts
from numaware.diagnose.evidence.logs.hints import nodes_of, shown
from numaware.diagnose.evidence.logs.journal import Admission, Case, Part
from numaware.diagnose.evidence.refusal_messages import AFFINITY
from numaware.diagnose.finding import Confidence, Evidence, Finding, Subject, finding
from numaware.diagnose.rules.merge_replay import as_hints
from numaware.diagnose.rules.merge_replay import replay as merged_again
from numaware.machine.cpuset import CpuSet
from numaware.twin.topology.hints import Hints
from numaware.twin.topology.policies import accepted_masks

_STRICT = ("restricted", "single-numa-node")


def case_findings(
    case: Case, kubelet: KubeletFacts, evidence: tuple[Evidence, ...] = ()
) -> Iterator[Finding]:
    """What admissions that went alike amount to; `evidence` are further lines on the same refusal."""
    of_case = _CaseFindings(case, kubelet, evidence)
    verdict = case.first.verdict
    if verdict is not None and verdict.code != "topology-affinity-error":
        yield of_case.other_refusal()
    elif verdict is not None:
        yield from of_case.refused(certain=True)
    else:
        yield from of_case.without_verdict()


class _CaseFindings:
    """One case, the part of it that decides, and the facts that all its findings share."""

    def __init__(self, case: Case, kubelet: KubeletFacts, evidence: tuple[Evidence, ...]) -> None:
        self.case = case
        self.kubelet = kubelet
        self.admission: Admission = case.first
        self.part = _deciding(self.admission)
        self.evidence = (*log_evidence.of_admission(self.admission), *evidence)
        nodes = kubelet.numa_nodes or _widest(self.part)
        old = kubelet.old if kubelet.version else (None if self.admission.structured else True)
        # Which of several sets is closest is not in a log, so that such a merge cannot be done again.
        self.replay = (
            None
            if kubelet.closest
            else merged_again(self.part, nodes, kubelet.policy, old=old, more=not kubelet.whole_machine)
        )
        shown_by = self.replay.policies if self.replay else ()
        self.policy = kubelet.policy or (shown_by[0] if len(shown_by) == 1 else "")

    # What all findings share

    @property
    def subject(self) -> Subject:
        pod = self.admission.pod
        node = self.admission.node
        return Subject("Pod", pod.namespace, pod.name, pod.uid, node)

    def facts(self, **more: Any) -> dict[str, Any]:
        part = self.part
        hints = {
            resource: None if listed is None else [shown(one) for one in listed]
            for resource, listed in part.hints.items()
        }
        return {
            "container": part.container or None,
            "policy": self.policy or None,
            "scope": self.kubelet.scope or None,
            "hints": hints or None,
            "merged": shown(part.merged) if part.merged else None,
            "requestedCpus": part.wanted,
            "cpus": part.given or None,
            "count": self.case.count if self.case.count > 1 else None,
            "at": self.admission.stamp or None,
            "milliseconds": _took(self.admission),
            "until": self.case.last_stamp if self.case.count > 1 and self.case.last_stamp else None,
            **self._compared(),
            **more,
        }

    def _compared(self) -> dict[str, str]:
        """What the twin makes of the same hints."""
        if self.replay is None or self.replay.confirmed:
            return {"twin": "confirmed"} if self.replay else {}
        return {"twin": "disagrees", "twinExpected": shown(self.replay.expected)}

    def _finding(
        self, code: str, confidence: Confidence = "certain", variant: str = "", **facts: Any
    ) -> Finding:
        return finding(
            code, self.subject, self.facts(**facts), self.evidence, confidence=confidence, variant=variant
        )

    # Refusals

    def other_refusal(self) -> Finding:
        verdict = self.admission.verdict
        if verdict is None:
            raise AssertionError("asked only about refusals")
        facts = dict(verdict.facts)
        if verdict.code == "not-enough-exclusive-cpus" and self.part.wanted is not None:
            facts.setdefault("wanted", self.part.wanted)
        facts.setdefault("reason", self.admission.reason or None)
        return self._finding(verdict.code, variant=verdict.variant, **facts)

    def refused(self, *, certain: bool) -> Iterator[Finding]:
        """The Topology Manager said no: which hints made it do so."""
        sure: Confidence = "certain" if certain else "likely"
        lists = {
            resource: as_hints(listed) for resource, listed in self.part.hints.items() if listed is not None
        }
        reason = {"reason": AFFINITY}
        accepted = {resource: accepted_masks(self.policy, hints) for resource, hints in lists.items()}
        nothing = [resource for resource, hints in lists.items() if not hints.masks]
        stuck = [resource for resource, masks in accepted.items() if not masks and resource not in nothing]
        if not lists:
            yield self._finding("topology-affinity-error", sure, "event-only", **reason)
        elif nothing:
            variant = "nothing-fits"
            yield self._finding("topology-affinity-error", sure, variant, resource=nothing[0], **reason)
        elif stuck:
            resource = stuck[0]
            masks = [nodes_of(mask) for mask in lists[resource].masks]
            variant = "too-wide" if lists[resource].preferred else "one-resource"
            yield self._finding(
                "topology-affinity-error",
                sure,
                variant,
                resource=resource,
                masks=masks,
                blame=_blame(lists),
                **reason,
            )
        else:
            yield self._disjoint(accepted, sure)
        yield from self._wide_memory(lists)

    def _disjoint(self, accepted: Mapping[str, list[int]], sure: Confidence) -> Finding:
        wants = [
            {"resource": resource, "nodes": [nodes_of(mask) for mask in masks]}
            for resource, masks in accepted.items()
        ]
        if not any(set(one).isdisjoint(other) for one, other in combinations(accepted.values(), 2)):
            # Any two go together, but not all of them: still no common node.
            sure = "likely"
        unions = {resource: reduce(or_, masks) for resource, masks in accepted.items()}
        room = [
            {
                "resource": resource,
                "nodes": nodes_of(reduce(or_, unions.values()) & ~mask),
            }
            for resource, mask in unions.items()
        ]
        return self._finding(
            "topology-affinity-error-disjoint-hints",
            sure,
            reason=AFFINITY,
            resources=list(accepted),
            wants=wants,
            room=[one for one in room if one["nodes"]] or None,
        )

    def _wide_memory(self, lists: Mapping[str, Hints]) -> Iterator[Finding]:
        """Memory that takes several NUMA nodes even on an empty machine, where the CPUs would take one."""
        memory, cpu = lists.get("memory"), lists.get("cpu")
        if memory is None or not memory.preferred or memory.preferred[0].bit_count() < 2:
            return
        singles = [nodes_of(mask) for mask in cpu.preferred if mask.bit_count() == 1] if cpu else []
        if singles:
            mask = memory.preferred[0]
            yield self._finding(
                "memory-needs-two-nodes",
                memoryNodes=nodes_of(mask),
                cpuNodes=singles,
                memoryHint=f"{{{mask:b} true}}",
                nodeCount=mask.bit_count(),
            )

    # Without a verdict

    def without_verdict(self) -> Iterator[Finding]:
        part = self.part
        lists = {resource: as_hints(listed) for resource, listed in part.hints.items() if listed is not None}
        if part.merged is None:
            yield from self._wide_memory(lists)
        elif part.merged.mask is None and not part.admitted:
            # Only single-numa-node ends with no nodes and no preference, and it refuses then.
            if not part.merged.preferred:
                yield from self.refused(certain=False)
        elif not part.merged.preferred and part.merged.mask is not None:
            if not part.admitted and (self.policy in _STRICT or self._was_passed_over()):
                yield from self.refused(certain=False)
            else:
                yield self._unaligned(lists)
        elif part.merged.preferred and part.merged.mask is not None:
            yield from self._preferred(part.merged.mask, lists)
        elif part.given:
            yield self._pinned()

    def _was_passed_over(self) -> bool:
        """Whether the kubelet went on to another pod without a word that this one passed, as it does with refused ones."""
        part = self.part
        return part.judged and self.admission.followed and not part.given and self.policy != "best-effort"

    def _unaligned(self, lists: Mapping[str, Hints]) -> Finding:
        mask = self.part.merged.mask if self.part.merged else 0
        admitted = self.part.admitted or bool(self.part.given)
        spread = self.kubelet.nodes_of(self.part.given) or nodes_of(mask)
        return self._finding(
            "unaligned-under-best-effort",
            "certain" if admitted else "likely" if self.policy == "best-effort" else "possible",
            nodes=spread,
            blame=_blame(lists) or None,
        )

    def _preferred(self, mask: int, lists: Mapping[str, Hints]) -> Iterator[Finding]:
        """A merge that was called preferred; kubelets before 1.24 said so although masks differed."""
        cpu = lists.get("cpu")
        given = self.kubelet.nodes_of(self.part.given)
        spilled = set(given) - set(nodes_of(mask))
        if spilled and cpu and len({one.bit_count() for one in cpu.preferred}) > 1:
            # Sets of several sizes are preferred under align-by-socket only, where any CPU of the socket will do.
            yield self._finding("aligned", variant="by-socket", nodes=given, preferred=True)
            return
        if spilled or (cpu and cpu.masks and all(one & ~mask for one in cpu.masks)):
            yield self._spread(given or nodes_of(cpu.masks[0] if cpu else mask), cpu)
            return
        yield from self._wide_memory(lists)
        if any(hints.masks for hints in lists.values()):
            # A preferred hint passes under every policy, also where the line that says so is missing.
            sure: Confidence = "certain" if self.part.admitted or self.part.given else "likely"
            variant = "several" if mask.bit_count() > 1 else ""
            yield self._finding("aligned", sure, variant, nodes=nodes_of(mask), preferred=True)
        elif self.part.given:
            yield self._pinned()

    def _spread(self, spread: list[int], cpu: Hints | None) -> Finding:
        per_node = self.kubelet.cpus_per_node()
        most = max(self.kubelet.exclusive_per_node().values(), default=None)
        return self._finding(
            "cpu-spread-over-nodes-under-best-effort",
            requested=self.part.wanted,
            nodes=spread,
            spread=spread,
            offered=[nodes_of(one) for one in cpu.masks[:4]] if cpu else None,
            perNode=max(per_node.values(), default=None),
            most=most,
            reserved=max(per_node.values()) - most if most is not None and per_node else None,
            policy=self.kubelet.policy or "best-effort",
        )

    def _pinned(self) -> Finding:
        where = self.kubelet.nodes_of(self.part.given)
        return self._finding("healthy", variant="pinned", requested=self.part.wanted, nodes=where or None)


def _deciding(admission: Admission) -> Part:
    """The container at which a refused pod failed, which is the last; else the first that is not as it should be."""
    parts = list(admission.parts.values())
    if not parts:
        return Part("")
    if admission.verdict is not None:
        return parts[-1]
    whole = admission.parts.get("")
    if whole is not None and whole.merged is not None:
        return _in_pod_scope(whole, parts)
    odd = (one for one in parts if one.merged is not None and not one.merged.preferred and one.merged.mask)
    return next(odd, max(parts, key=lambda one: (one.merged is not None, len(one.hints), bool(one.given))))


def _in_pod_scope(whole: Part, parts: list[Part]) -> Part:
    """Hints and merge are the pod's, the CPUs its containers'."""
    given = CpuSet(cpu for part in parts if part.given for cpu in CpuSet.parse(part.given))
    wanted = [part.wanted for part in parts if part.wanted is not None]
    return replace(
        whole,
        admitted=any(part.admitted for part in parts),
        wanted=sum(wanted) if wanted else None,
        given=str(given),
    )


def _took(admission: Admission) -> float | None:
    """How long the kubelet was busy with the pod, from its first line to the verdict or the last CPU."""
    times = [seen.record.seconds for seen in admission.evidence if seen.record.seconds is not None]
    return round((max(times) - min(times)) * 1000, 3) if len(times) > 1 else None


def _widest(part: Part) -> int:
    """At least so many NUMA nodes does the machine have."""
    masks = [one.mask or 0 for listed in part.hints.values() for one in listed or ()]
    masks.append(part.merged.mask or 0 if part.merged else 0)
    return max(mask.bit_length() for mask in masks)


def _blame(lists: Mapping[str, Hints]) -> list[dict[str, Any]]:
    """Each resource's part in it: `fits` one node, is `wide` on any machine of this kind, is `fragmented`, or fits `nowhere`."""
    blame = []
    for resource, hints in lists.items():
        if not hints.masks:
            state = "nowhere"
        elif not hints.preferred:
            state = "fragmented"
        else:
            state = "wide" if hints.preferred[0].bit_count() > 1 else "fits"
        masks = hints.preferred or hints.masks
        blame.append({"resource": resource, "state": state, "nodes": [nodes_of(mask) for mask in masks[:4]]})
    return blame
