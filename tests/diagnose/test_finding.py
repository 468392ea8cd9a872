from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest

from numaware.diagnose.finding import (
    CODES,
    SEVERITIES,
    Evidence,
    Message,
    Subject,
    finding,
    is_trouble,
    worst_first,
)
from numaware.diagnose.render import json as as_json
from numaware.diagnose.render import text as as_text
from numaware.diagnose.texts import Lang, Language, finding_text, language
from numaware.diagnose.texts.template import MissingFactError, fill
from numaware.machine.drawing.lines import line_width, plain
from support.choices import LANGUAGES

ENGLISH = language("en")
CHINESE = language("zh")

HOLE = re.compile(r"(?<!\{)\{([\w:]+)\}(?!\})")
POD = Subject("Pod", "shop", "web-0", "u-1", "n1")
LOOP = finding(
    "smt-alignment-error",
    POD,
    {"requested": 9, "threads": 2, "fewer": 8, "more": 10},
    [Evidence("kubelet.log", 7, 'x requested "9 cpus" y', "9 cpus", Message("refused"))],
)


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_an_english_text(code: str) -> None:
    assert any(key.split("/")[0] == code for key in ENGLISH.TEXTS), code


@pytest.mark.parametrize("tables", [ENGLISH, CHINESE], ids=["en", "zh"])
def test_texts_are_only_of_known_codes(tables: Language) -> None:
    assert {key.split("/")[0] for key in tables.TEXTS} <= set(CODES)


def test_both_languages_tell_the_same_codes_labels_and_kinds_of_facts() -> None:
    assert set(CHINESE.TEXTS) == set(ENGLISH.TEXTS)
    assert set(CHINESE.LABELS) == set(ENGLISH.LABELS)
    assert set(CHINESE.SPECS) == set(ENGLISH.SPECS)


@pytest.mark.parametrize("key", ENGLISH.TEXTS)
def test_both_languages_use_the_same_facts(key: str) -> None:
    """A hole that one language has and the other has not is a fact that somebody is not told."""
    used = [
        {
            hole.partition(":")[0]
            for part in (text.title, text.cause, *text.fix)
            for hole in HOLE.findall(part)
        }
        for text in (ENGLISH.TEXTS[key], CHINESE.TEXTS[key])
    ]
    assert used[0] == used[1]


def test_a_sentence_leaves_out_what_is_not_known() -> None:
    assert fill("a[[ on {node}]] b", {}, ENGLISH.SPECS) == "a b"
    assert fill("a[[ on {node}]] b", {"node": "{n}"}, ENGLISH.SPECS) == "a on {n} b"
    with pytest.raises(MissingFactError):
        fill("{node}", {}, ENGLISH.SPECS)


def test_a_fact_with_braces_or_brackets_is_only_text() -> None:
    assert fill("{x}", {"x": "[[{y}]] {0}"}, ENGLISH.SPECS) == "[[{y}]] {0}"


def test_numbers_of_numa_nodes_read_as_people_say_them() -> None:
    assert fill("{n:nodes}", {"n": [1]}, ENGLISH.SPECS) == "NUMA node 1"
    assert fill("{n:nodes}", {"n": [0, 1, 3]}, ENGLISH.SPECS) == "NUMA nodes 0, 1 and 3"
    assert fill("{n:sets}", {"n": [[0], [1, 2]]}, ENGLISH.SPECS) == "NUMA node 0 or NUMA node 1 and node 2"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_finding_is_told_in_every_language(lang: Lang) -> None:
    words = finding_text(LOOP, lang)
    assert "9" in words.title
    assert "full-pcpus-only" in words.cause
    assert words.fix


def test_the_json_has_the_documented_keys() -> None:
    document = json.loads(as_json.render([LOOP], [("kubelet.log", "kubelet log")]))
    (one,) = document["findings"]
    assert set(one) == {
        "code",
        "severity",
        "subject",
        "title",
        "cause",
        "fix",
        "evidence",
        "confidence",
        "facts",
    }
    assert one["subject"] == {
        "kind": "Pod",
        "namespace": "shop",
        "name": "web-0",
        "uid": "u-1",
        "node": "n1",
    }
    assert one["evidence"] == [{"file": "kubelet.log", "line": 7, "text": 'x requested "9 cpus" y'}]
    assert document["files"] == [{"file": "kubelet.log", "kind": "kubelet log"}]


def test_the_arrow_stands_under_what_is_marked() -> None:
    shown = [plain(line) for line in as_text.lines(LOOP, 100)]
    for above, below in pairwise(shown):
        if "^" in below:
            assert above.index("9 cpus") == below.index("^")
            assert below.count("^") == len("9 cpus")
            assert below.endswith("refused here")
            return
    pytest.fail("no arrow")


@pytest.mark.parametrize("room", [40, 80, 200])
def test_no_line_is_wider_than_the_room_and_no_terminal_command_gets_through(room: int) -> None:
    long = finding(
        "admission-error",
        POD,
        {"reason": "X", "message": "m" * 900 + "\x1b[2J"},
        [Evidence("f" * 300, 123456, "é漢" * 300 + "MARK" + "z" * 300, "MARK", Message("refused"))],
    )
    for line in as_text.lines(long, room):
        assert line_width(line) <= room
        assert "\x1b" not in plain(line)


def test_the_mark_of_a_long_line_stays_in_sight() -> None:
    evidence = [Evidence("f", 1, "a" * 500 + "MARK" + "b" * 500, "MARK")]
    shown = [
        plain(line)
        for line in as_text.lines(finding("healthy", POD, {"what": "w", "story": "s"}, evidence), 80)
    ]
    (line,) = (line for line in shown if "MARK" in line)
    arrow = shown[shown.index(line) + 1]
    assert arrow.index("^") == line.index("MARK")


def test_the_worst_come_first_and_only_what_is_fine_is_no_trouble() -> None:
    found = [finding(code, POD) for code in ("healthy", "not-guaranteed", "out-of-cpu")]
    assert [one.severity for one in worst_first(found)] == list(SEVERITIES)
    assert is_trouble(found)
    assert not is_trouble(found[:1])
