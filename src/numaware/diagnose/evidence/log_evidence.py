"""Lines of a log as evidence of a finding: the line, which part of it to mark, and what to say beneath it."""

from __future__ import annotations

import re

from numaware.diagnose.evidence.logs.hints import nodes_of, shown
from numaware.diagnose.evidence.logs.journal import Admission
from numaware.diagnose.evidence.logs.seen import Seen
from numaware.diagnose.finding import Evidence, Message
from numaware.machine.words import printable

LONGEST = 1_000
_BRACED = re.compile(r"\{[^{}]{0,200}\}")


def line(seen: Seen, mark: str = "", label: Message | None = None) -> Evidence:
    """The line of the log, without what a terminal would obey."""
    return Evidence(seen.record.file, seen.record.line, printable(seen.record.text, LONGEST), mark, label)


def of_admission(admission: Admission) -> list[Evidence]:
    """The lines that explain an admission: hints by resource, the merge, the CPUs, the verdict."""
    shown_hints: set[str] = set()
    hint_lines: list[Evidence] = []
    last: dict[str, Evidence] = {}
    for seen in admission.evidence:
        if seen.what == "hints":
            # The CPU manager tells its hints once before the Topology Manager does.
            fresh = sorted(set(seen.hints) - shown_hints)
            shown_hints.update(fresh)
            hint_lines += [
                line(seen, _list_of(seen, resource), _wish(seen, resource)) for resource in fresh[:1]
            ]
        elif seen.what == "impossible" and seen.resource not in shown_hints:
            shown_hints.add(seen.resource)
            hint_lines.append(
                line(seen, seen.resource, Message("wants-nothing", {"resource": seen.resource}))
            )
        elif seen.what == "merged" and seen.hint is not None:
            last["merged"] = line(seen, _last_braced(seen), Message("merged", {"hint": shown(seen.hint)}))
        elif seen.what == "cpus-given":
            last["given"] = line(seen, quoted(seen, seen.cpus), Message("got-cpus"))
        elif seen.what == "refused" and "refused" not in last:
            last["refused"] = line(seen, quoted(seen, seen.reason or seen.message[:120]), Message("refused"))
    return sorted([*hint_lines, *last.values()], key=lambda one: (one.file, one.line))


def _wish(seen: Seen, resource: str) -> Message:
    hints = seen.hints[resource]
    if hints is None:
        return Message("no-wish")
    preferred = [nodes_of(one.mask) for one in hints if one.preferred and one.mask]
    if preferred:
        return Message("wants", {"resource": resource, "nodes": preferred[:4]})
    if hints:
        return Message("makes-do", {"resource": resource, "nodes": [nodes_of(one.mask) for one in hints[:4]]})
    return Message("wants-nothing", {"resource": resource})


def _list_of(seen: Seen, resource: str) -> str:
    """The hints of a resource as they stand in the line."""
    text = printable(seen.record.text, LONGEST)
    for begin in (f'"{resource}":[', f"{resource}:[", "cpuHints=[", "': [", "' : ["):
        at = text.find(begin)
        if at >= 0:
            end = text.find("]", at)
            start = at + len(begin) - 1
            return text[start : end + 1] if end > start else text[start:]
    return resource if resource in text else ""


def _last_braced(seen: Seen) -> str:
    braced = _BRACED.findall(printable(seen.record.text, LONGEST))
    return braced[-1] if braced and "bestHint" not in seen.record.fields else braced[0] if braced else ""


def quoted(seen: Seen, sentence: str) -> str:
    """A sentence as it stands in the line, where its own quotes may be escaped."""
    for text in (sentence, sentence.replace('"', '\\"')):
        if text and text in seen.record.text:
            return text
    return ""
