"""Evidence that somebody dropped on the page, one file or an archive of several: read as `numaware diagnose` reads it.

It is a program of its own, started by `uploads` for each upload: what a stranger sent can be stopped at any moment, its
memory comes back whole, and nothing it costs holds up the console.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any, TypedDict, cast

import msgspec

from numaware.diagnose.evidence.bundle import Bundle
from numaware.diagnose.evidence.intake import take
from numaware.diagnose.finding import Confidence, Severity, Subject
from numaware.diagnose.render.json import to_builtins
from numaware.diagnose.rules.diagnosis import findings
from numaware.diagnose.rules.unread import unread_findings
from numaware.diagnose.texts import Lang, label
from numaware.machine.unpacking import Budget, Readable
from numaware.machine.words import printable

_MOST_FILES = 2000
# Of all files together, unpacked.
_MOST_BYTES = 512 << 20
_MOST_FINDINGS = 1000
# What is not read by then is told as far as it was.
_SECONDS = 20
_MOST_MEMORY = 1 << 30
OUT_OF_MEMORY = 3


class Quote(TypedDict):
    """A line of a file."""

    file: str
    line: int
    text: str


class Told(TypedDict):
    """A finding in words."""

    code: str
    severity: Severity
    subject: Subject
    title: str
    cause: str
    fix: list[str]
    evidence: list[Quote]
    confidence: Confidence
    facts: dict[str, Any]


class Evidence(msgspec.Struct, frozen=True):
    """A file, and what it was taken for, in words."""

    file: str
    kind: str


class Diagnosis(msgspec.Struct, frozen=True):
    """What `numaware diagnose --json` would write."""

    findings: tuple[Told, ...]
    files: tuple[Evidence, ...]


def diagnosed(stream: Readable, name: str, lang: Lang) -> Diagnosis:
    """The findings on one upload, within what a stranger may cost: unpacked bytes, files, time."""
    bundle = Bundle()
    budget = Budget(_MOST_BYTES, _MOST_FILES, _SECONDS, time.monotonic)
    take(bundle, printable(name, 200), stream, budget)
    found = [*unread_findings(bundle), *findings(bundle)]
    return Diagnosis(
        tuple(cast("Told", to_builtins(finding, lang)) for finding in found[:_MOST_FINDINGS]),
        tuple(Evidence(file, _in_words(kinds, lang)) for file, kinds in bundle.files),
    )


def _in_words(kinds: str, lang: Lang) -> str:
    """A list of kinds; those of Kubernetes' objects are names."""

    def word(kind: str) -> str:
        try:
            return label(f"kind-{kind}", lang)
        except KeyError:
            return kind

    return ", ".join(map(word, kinds.split(", ")))


def main(name: str, lang: str) -> None:
    """The process that `uploads` starts for one upload, which is its standard input; the answer goes to its standard output."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (2 * _SECONDS, 2 * _SECONDS))
    os.nice(10)
    with contextlib.suppress(OSError):
        # Where memory is short, this is the process that can be spared.
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    try:
        found = diagnosed(sys.stdin.buffer, name, "zh" if lang == "zh" else "en")
        sys.stdout.buffer.write(msgspec.json.encode(found))
    except MemoryError:
        sys.exit(OUT_OF_MEMORY)


if __name__ == "__main__":
    main(*sys.argv[1:])
