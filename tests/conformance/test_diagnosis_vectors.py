"""Every error that real kubelets were recorded saying, at start or to a pod, has its diagnosis."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest

from numaware.diagnose.evidence.meaning import Meaning
from numaware.diagnose.evidence.refusal_messages import refusal
from numaware.diagnose.evidence.start_messages import start_failure
from numaware.diagnose.finding import CODES, Subject, finding
from numaware.diagnose.texts import finding_text
from support.shared_data import ROOT, shared

FILES = sorted(path.name for path in (ROOT / "vectors" / "kubelet").glob("*.jsonl.gz"))


@lru_cache(maxsize=16)
def said(name: str) -> tuple[frozenset[tuple[str, str]], frozenset[str]]:
    """What the kubelets of one file said: (message, reason) to pods, and at start."""
    refused: set[tuple[str, str]] = set()
    starts: set[str] = set()
    with gzip.open(shared("vectors", "kubelet", name), "rt") as stream:
        for line in stream:
            for key, value in _pairs(json.loads(line)["result"]):
                if key == "start":
                    starts.add(value)
                else:
                    refused.add((value, key))
    return frozenset(refused), frozenset(starts)


def _pairs(node: Any) -> Iterator[tuple[str, str]]:
    """All (reason, message) and ("start", error) of a result, wherever they are."""
    if isinstance(node, dict):
        if node.get("reason") and "message" in node:
            yield node["reason"], node["message"]
        if isinstance(node.get("start"), dict) and node["start"].get("error"):
            yield "start", node["start"]["error"]
        for child in node.values():
            yield from _pairs(child)
    elif isinstance(node, list):
        for child in node:
            yield from _pairs(child)


def check(meaning: Meaning | None, message: str) -> None:
    assert meaning is not None, message
    assert meaning.code in CODES
    assert meaning.code != "admission-error", message
    words = finding_text(
        finding(meaning.code, Subject("Pod", "shop", "web-0"), meaning.facts, variant=meaning.variant)
    )
    assert "?" not in words.title + words.cause


def test_there_are_recordings_with_refusals_and_failed_starts() -> None:
    shared("vectors", "kubelet")
    refused, starts = zip(*(said(name) for name in FILES), strict=True)
    assert any(refused)
    assert any(starts)


@pytest.mark.parametrize("name", FILES)
def test_every_refusal_has_a_code_and_words(name: str) -> None:
    for message, reason in said(name)[0]:
        check(refusal(message, reason), message)


@pytest.mark.parametrize("name", FILES)
def test_every_failed_start_has_a_code_and_words(name: str) -> None:
    for message in said(name)[1]:
        check(start_failure(message), message)
