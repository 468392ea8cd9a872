"""What keeps "nothing found" from meaning "nothing wrong": evidence that ends too early, or that nothing could be made of.

`numaware diagnose` and the console put these before the findings of `diagnosis`; with one of them the answer is not calm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from numaware.diagnose.evidence.bundle import Bundle
from numaware.diagnose.evidence.intake import UNKNOWN
from numaware.diagnose.finding import Evidence, Finding, Subject, finding
from numaware.machine import sources

_MOST = 20
_SILENT = ("empty", "no-entries", "other-log")
_BESIDE = {*sources.KINDS, "topology", "manifest"}
_CODES = ("evidence-incomplete", "nothing-recognised")


def unread_findings(bundle: Bundle) -> Iterator[Finding]:
    """One finding for each file that was not read to its end, and one where no file at all is evidence."""
    for file, cut in list(bundle.cuts.items())[:_MOST]:
        facts = {
            "file": file,
            "problem": cut.problem,
            "member": cut.member or None,
            "bytes": cut.read or None,
        }
        variant = "member" if cut.member else "bytes" if cut.read else ""
        yield finding("evidence-incomplete", _about(file), facts, [Evidence(file)], variant=variant)
    unknown = [file for file, kind in bundle.files if kind == UNKNOWN and file not in bundle.cuts]
    kinds = {kind for _, kind in bundle.files} - {UNKNOWN, "archive"}
    # A machine and a manifest say nothing about what happened; the log that should is not there.
    silent = [file for file in unknown if bundle.unknown.get(file, {}).get("state") in _SILENT]
    if (not kinds and (unknown or not bundle.cuts)) or (kinds <= _BESIDE and silent):
        unread = [{"file": file, **bundle.unknown.get(file, {"state": "text"})} for file in unknown[:_MOST]]
        subject = _about(unknown[0]) if len(unknown) == 1 else Subject("File")
        evidence = map(Evidence, unknown[:_MOST])
        yield finding("nothing-recognised", subject, {"unread": unread or None}, evidence)


def is_unread(findings: Iterable[Finding]) -> bool:
    """Whether something was not read, so that a command that found no more than this must not say that all is well."""
    return any(one.code in _CODES for one in findings)


def _about(file: str) -> Subject:
    return Subject("File", name=file)
