"""Every error that real kubelets were recorded saying, at start or to a pod, has its diagnosis."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

import msgspec
import pytest

from numaware.diagnose.evidence.meaning import Meaning
from numaware.diagnose.evidence.refusal_messages import refusal
from numaware.diagnose.evidence.start_messages import start_failure
from numaware.diagnose.finding import CODES, Subject, finding
from numaware.diagnose.texts import finding_text
from support.shared_data import ROOT

FOLDER = Path(__file__).parents[1] / "vectors" / "kubelet"
# The committed recordings, and those of more releases that lie beside the checkout.
FILES = {
    path.name: path for folder in (ROOT / "vectors" / "kubelet", FOLDER) for path in folder.glob("*.jsonl.gz")
}


class Start(msgspec.Struct):
    error: str | None = None


class Event(msgspec.Struct):
    reason: str = ""
    message: str = ""
    readmissions: list[Event] | None = None


class Result(msgspec.Struct):
    start: Start
    events: list[Event] | None


class Recording(msgspec.Struct):
    result: Result


_RECORDING = msgspec.json.Decoder(Recording)


@cache
def said(name: str) -> tuple[frozenset[tuple[str, str]], frozenset[str]]:
    """What the kubelets of one file said: (message, reason) to pods, and at start."""
    with gzip.open(FILES[name]) as stream:
        results = [_RECORDING.decode(line).result for line in stream]
    events = [event for result in results for event in result.events or ()]
    events += [again for event in events for again in event.readmissions or ()]
    refused = {(event.message, event.reason) for event in events if event.reason}
    return frozenset(refused), frozenset(result.start.error for result in results if result.start.error)


def check(meaning: Meaning | None, message: str) -> None:
    assert meaning is not None, message
    assert meaning.code in CODES
    assert meaning.code != "admission-error", message
    words = finding_text(
        finding(meaning.code, Subject("Pod", "shop", "web-0"), meaning.facts, variant=meaning.variant)
    )
    assert "?" not in words.title + words.cause


def test_there_are_recordings_with_refusals_and_failed_starts() -> None:
    refused, starts = zip(*(said(name) for name in FILES), strict=True)
    assert any(refused)
    assert any(starts)


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_refusal_has_a_code_and_words(name: str) -> None:
    for message, reason in said(name)[0]:
        check(refusal(message, reason), message)


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_failed_start_has_a_code_and_words(name: str) -> None:
    for message in said(name)[1]:
        check(start_failure(message), message)
