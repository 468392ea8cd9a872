#!/usr/bin/env python3
"""The tables of docs/kubelet/versions.md: which releases were recorded, how often the twin agrees, and the rules between them.

`.venv/bin/python scripts/kubelet_versions.py` replays every recording and writes the page anew; a test holds the page to
the rules and to the recordings that are there.
"""

from __future__ import annotations

import gzip
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from numaware.twin.agreement import differences
from numaware.twin.recording import Recording, replay
from numaware.twin.rules import RULES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "kubelet" / "versions.md"
VECTORS = ROOT / "tests" / "vectors" / "kubelet"
_RELEASE = re.compile(r"(\| release \|.*?\n)\n", re.DOTALL)
_RULES = re.compile(r"(\| rule \|.*?\n)\n", re.DOTALL)


class _Scenario(msgspec.Struct, rename="camel"):
    kubernetes_version: str = "v1.35.8"


class _Line(msgspec.Struct):
    scenario: _Scenario


def recorded() -> Counter[str]:
    """How many scenarios there are of each release."""
    decoder = msgspec.json.Decoder(_Line)
    return Counter(decoder.decode(line).scenario.kubernetes_version for line in _lines())


def release_rows(scenarios: Counter[str], agreeing: Counter[str]) -> list[str]:
    """The table of releases."""
    return ["| release | recorded scenarios | the twin agrees |", "|---|---|---|"] + [
        f"| {version} | {scenarios[version]} | {agreeing[version]} |"
        for version in sorted(scenarios, key=_order)
    ]


def rule_rows() -> list[str]:
    """The table of rules."""
    return ["| rule | holds | in a sentence |", "|---|---|---|"] + [
        f"| `{name}` | {' '.join(filter(None, (rule.first, rule.last)))} | {rule.says} |"
        for name, rule in RULES.items()
    ]


def page(text: str, releases: list[str], rules: list[str]) -> str:
    """The page with these tables in place of its own."""
    for pattern, rows in ((_RELEASE, releases), (_RULES, rules)):
        text = pattern.sub(lambda _, rows=rows: "\n".join(rows) + "\n\n", text, count=1)  # type: ignore[misc]
    return text


def _lines() -> Iterator[bytes]:
    for path in sorted(VECTORS.glob("*.jsonl.gz")):
        with gzip.open(path) as stream:
            yield from stream


def _order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.removeprefix("v").split(".")))


def _agreeing() -> Counter[str]:
    decoder = msgspec.json.Decoder(Recording)
    agreeing: Counter[str] = Counter()
    for line in _lines():
        recording = decoder.decode(line)
        if recording.result and not differences(recording.result, replay(recording.scenario)):
            agreeing[recording.scenario.kubernetes_version] += 1
    return agreeing


def main() -> int:
    """Write the page."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page(text, release_rows(recorded(), _agreeing()), rule_rows()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
