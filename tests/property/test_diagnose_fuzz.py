"""No evidence, however damaged, brings the diagnosis down or makes it say what cannot be shown."""

from __future__ import annotations

import json
from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from numaware.diagnose.finding import CODES, CONFIDENCES, SEVERITIES
from numaware.diagnose.render import html, text
from numaware.diagnose.render import json as as_json
from numaware.diagnose.rules.diagnosis import findings
from numaware.machine.drawing.lines import line_width, plain
from numaware.twin.topology.hints import Hint
from support.choices import LANGUAGES
from support.diagnosed import bundled
from support.healthy_evidence import samples
from support.kubelet_logs import ERAS, WRAPPERS, Story, noisy, written

ROOM = 80


def check_evidence(data: bytes) -> None:
    """Whatever the bytes are, there is an answer, and every page of it can be written."""
    bundle = bundled(file=data)
    found = findings(bundle)
    assert len(bundle.files) == 1
    for one in found:
        assert one.code in CODES
        assert one.severity in SEVERITIES
        assert one.confidence in CONFIDENCES
    for lang in LANGUAGES:
        document = json.loads(as_json.render(found, bundle.files, lang))
        assert [one["code"] for one in document["findings"]] == [one.code for one in found]
        for line in text.page(found, bundle.files, ROOM, lang):
            assert line_width(line) <= ROOM
            assert plain(line).isprintable()
        assert html.render(found, bundle.files, lang).count(b"<article") == len(found)


def _evidence() -> list[bytes]:
    story = Story(
        hints={
            "cpu": [Hint(2, preferred=True), Hint(3, preferred=False)],
            "memory": [Hint(1, preferred=True)],
        },
        merged=Hint(None, preferred=False),
        reason="TopologyAffinityError",
        message="Resources cannot be allocated with Topology locality",
    )
    logs = [
        noisy(written(era, story), wrap).encode() for era in ERAS for wrap in islice(WRAPPERS.values(), 4)
    ]
    bad = (
        b"  Warning  UnexpectedAdmissionError  3m (x2 over 5m)  kubelet, n1  Allocate failed due to not enough cpus available to "
        b"satisfy request: requested=4, available=2, which is unexpected\n"
        b'E0101 00:00:00.000000 1 server.go:1] "Failed to run kubelet" err="configured policy \\"static\\" differs from state '
        b'checkpoint policy \\"none\\""\nNAME READY STATUS RESTARTS AGE\nweb-0 0/1 SMTAlignmentError 0 1s\n'
    )
    return [*logs, bad, *(sample.encode() for _, sample in samples())]


EVIDENCE = _evidence()


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A piece of evidence with parts cut out, doubled, swapped or overwritten."""
    data = bytearray(draw(st.sampled_from(EVIDENCE)))
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.integers(0, 200)))
        match draw(st.integers(0, 3)):
            case 0:
                del data[at:end]
            case 1:
                data[at:at] = data[at:end]
            case 2:
                data[at:at] = draw(st.binary(max_size=20))
            case _:
                data[at:at] = draw(
                    st.sampled_from(
                        (b'"', b"[", b"{", b"\n", b"\\", b"=", b"<", b"map[", b"\xff", b"\x1b[2J")
                    )
                )
    return bytes(data)


@settings(max_examples=150, deadline=None)
@given(damaged())
def test_damaged_evidence_is_read_as_far_as_it_goes(data: bytes) -> None:
    check_evidence(data)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=600))
def test_any_bytes_are_read(data: bytes) -> None:
    check_evidence(data)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300))
def test_any_text_proves_nothing(text: str) -> None:
    bundle = bundled(file=text)
    assert [one for one in findings(bundle) if one.severity != "info"] == []


def test_lines_made_to_take_forever_do_not() -> None:
    for data in (
        b"\n" * 200_000,
        b'"' * 200_000,
        b"{" * 200_000,
        b"opolog [" * 20_000,
        b"I0815 10:00:00.410301 1 s.go:1] [topologymanager] TopologyHints for pod 'a', container 'b': map["
        + b"a" * 60_000,
        (b"x=<" * 5_000 + b"opolog\n") * 4,
        b"Warning " * 20_000,
        b"Allocate failed due to " * 20_000,
    ):
        check_evidence(data)
