"""From a bundle to findings: one for each thing that happened, with every file that says something about it.

The last step of `numaware diagnose`. Cases of logs, refusals of events and tables, loops, and state files against
settings become findings; what the twin and the state files add is joined to them, and equal ones are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from numaware.diagnose.evidence.bundle import Attempt, Bundle, about
from numaware.diagnose.evidence.kubelet_facts import KubeletFacts, kubelet_facts
from numaware.diagnose.evidence.logs.journal import Case, NodeLog
from numaware.diagnose.finding import CODES, Finding, Subject, finding, worst_first
from numaware.diagnose.rules.admission import case_findings
from numaware.diagnose.rules.held_resources import with_held, with_holders
from numaware.diagnose.rules.kubelet_log import node_findings
from numaware.diagnose.rules.loops import loop_findings
from numaware.diagnose.rules.node_replay import with_twin
from numaware.diagnose.rules.state_files import mismatch_findings
from numaware.twin.settings import Settings

# Pods that are fine are worth a word, but not a thousand.
_MOST_FINE = 50
_MOST_EVIDENCE = 20


def findings(bundle: Bundle) -> list[Finding]:
    """Everything that was found, the worst first."""
    bundle.journal.close()
    collected = list(bundle.findings)
    used: set[int] = set()
    for log in bundle.journal.nodes.values():
        kubelet = _known(bundle, log)
        machine = about(bundle.machines, log.node)
        collected += node_findings(log, machine.content if machine else None)
        for case in log.cases.values():
            collected += _case(bundle, log, case, kubelet, used)
    rest = [attempt for attempt in bundle.attempts if id(attempt) not in used]
    collected += [with_twin(bundle, one) for one in _attempt_findings(rest)]
    collected += loop_findings(bundle.journal.cases(), bundle.attempts, bundle.journal.nodes.values())
    collected += _mismatches(bundle)
    return _shortened(worst_first(_joined(collected)))


def _known(bundle: Bundle, log: NodeLog) -> KubeletFacts:
    machine = about(bundle.machines, log.node)
    report = next((piece.content for piece in bundle.reports if piece.content.node == log.node), None)
    return kubelet_facts(log, _settings(bundle, log.node), machine.content if machine else None, report)


def _settings(bundle: Bundle, node: str) -> Settings | None:
    """The kubelet's settings: its file, and its flags over it where both are there."""
    if len(bundle.settings) == 2 and {
        piece.file for piece in bundle.settings if _are_flags(bundle, piece.file)
    }:
        ordered = sorted(bundle.settings, key=lambda piece: _are_flags(bundle, piece.file))
        return ordered[0].content.overridden(ordered[1].content)
    only = about(bundle.settings, node)
    return only.content if only else None


def _are_flags(bundle: Bundle, file: str) -> bool:
    return (file, "kubelet flags") in bundle.files


def _case(
    bundle: Bundle, log: NodeLog, case: Case, kubelet: KubeletFacts, used: set[int]
) -> Iterator[Finding]:
    """A case of a log with what events and statuses say of the same refusal."""
    evidence = []
    verdict = case.first.verdict
    for attempt in bundle.attempts:
        if (
            verdict
            and attempt.meaning.code == verdict.code
            and case.first.matches(attempt.pod)
            and attempt.pod.name
        ):
            used.add(id(attempt))
            evidence.append(attempt.evidence)
    for one in case_findings(case, kubelet, tuple(evidence[:3])):
        told = with_held(bundle, with_twin(bundle, one))
        yield with_holders(bundle, log, kubelet, told)


def _attempt_findings(attempts: Iterable[Attempt]) -> Iterator[Finding]:
    """Refusals that no log explains: as much as they say themselves, alike ones counted."""
    groups: dict[tuple[object, ...], list[Attempt]] = {}
    for attempt in attempts:
        meaning = attempt.meaning
        pod = attempt.pod
        key = (
            pod.namespace,
            pod.name,
            attempt.node,
            meaning.code,
            meaning.variant,
            repr(dict(meaning.facts)),
        )
        groups.setdefault(key, []).append(attempt)
    for group in groups.values():
        first = group[0]
        count = sum(one.count for one in group)
        facts: dict[str, Any] = {
            **first.meaning.facts,
            "reason": first.reason or first.meaning.facts.get("reason"),
            "count": count if count > 1 else None,
            "at": first.stamp or None,
            "controller": first.controller or None,
        }
        pod = first.pod
        yield finding(
            first.meaning.code,
            Subject("Pod", pod.namespace, pod.name, pod.uid, first.node),
            facts,
            [one.evidence for one in group[:_MOST_EVIDENCE]],
            variant=first.meaning.variant,
        )


def _mismatches(bundle: Bundle) -> Iterator[Finding]:
    """State files against the configuration beside them."""
    for piece in bundle.states:
        state = piece.content
        alone = sum(one.content.name == state.name for one in bundle.states) == 1
        settings = _settings(bundle, "") if alone else None
        if settings is not None:
            where = bundle.settings[0].file
            yield from mismatch_findings(state.checkpoint, piece.file, settings, where)


def _joined(findings: list[Finding]) -> list[Finding]:
    """What a log and a configuration say of the same start is told once, with both as evidence."""
    kept: list[Finding] = []
    at: dict[str, int] = {}
    for one in findings:
        about_kubelet = one.subject.kind in ("Kubelet", "KubeletConfiguration") and CODES[one.code] == "error"
        earlier = at.get(one.code) if about_kubelet else None
        if earlier is None or kept[earlier].subject.kind == one.subject.kind:
            if about_kubelet:
                at.setdefault(one.code, len(kept))
            kept.append(one)
            continue
        # The configuration knows the settings by line, the log what the kubelet made of them.
        other = kept[earlier]
        log, config = (one, other) if one.subject.kind == "Kubelet" else (other, one)
        kept[earlier] = msgspec.structs.replace(
            config,
            severity="error",
            confidence="certain",
            subject=log.subject,
            facts={**config.facts, **{k: v for k, v in log.facts.items() if k != "example"}},
            evidence=(*log.evidence, *config.evidence),
        )
    return kept


def _shortened(findings: list[Finding]) -> list[Finding]:
    fine = [one for one in findings if one.severity == "info"]
    return [one for one in findings if one.severity != "info"] + fine[:_MOST_FINE]
