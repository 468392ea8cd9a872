"""Both languages have words for everything that is found out, and Chinese ones are Chinese."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from numaware.diagnose.evidence import fit_error
from numaware.diagnose.explain.explanation import explain, to_builtins
from numaware.diagnose.finding import Message
from numaware.diagnose.reason import FACTS, Code, Fact, Reason, most_frequent_first
from numaware.diagnose.texts import language, say, worded
from numaware.twin.node import Node
from numaware.workload.pod import Pod
from property.test_counterfactual_laws import Case, cases
from support.twin_nodes import GI, GPU, admitted, config, machine, pod

ENGLISH = language("en")
CHINESE = language("zh")

SOURCE = Path(__file__).parents[2] / "src" / "numaware"
HOLE = re.compile(r"(?<!\{)\{(\w+)(?::\w+)?\}(?!\})")
_LATIN_BY_CHINESE = re.compile(r"[\u4e00-\u9fff][A-Za-z0-9]|[A-Za-z0-9][\u4e00-\u9fff]")
_SPACE_IN_CHINESE = re.compile(r"[\u4e00-\u9fff] [\u4e00-\u9fff]|[，。：；、（）] | [，。：；、（）]")


def _keys() -> Iterator[str]:
    """Every key that the program asks for by its name."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                first = node.args[0]
                # The pages of the command line have a short name for it.
                names = ("Message", "label", "_told") if path.parent.name == "cli" else ("Message", "label")
                if node.func.id in names and isinstance(first, ast.Constant):
                    yield str(first.value)


def test_every_message_has_words_in_both_languages() -> None:
    asked = set(_keys())
    assert len(asked) > 100
    assert asked - set(ENGLISH.LABELS) == set()
    assert asked - set(CHINESE.LABELS) == set()


@pytest.mark.parametrize("key", ENGLISH.LABELS)
def test_both_languages_tell_the_same_facts_of_a_message(key: str) -> None:
    assert set(HOLE.findall(ENGLISH.LABELS[key])) == set(HOLE.findall(CHINESE.LABELS[key]))


def _told(case: Case) -> Iterator[str]:
    explained = to_builtins(case.explanation, lang="zh")
    for cause in explained["why"]:
        yield cause["text"]
        yield from cause["blockedBy"]
    yield from (change["text"] for change in explained["changes"])
    yield from explained["warnings"]


@settings(max_examples=150)
@given(cases())
def test_no_explanation_in_chinese_is_english_and_words_stand_as_they_should(case: Case) -> None:
    for text in _told(case):
        assert re.search(r"[\u4e00-\u9fff]", text), text
        assert not _LATIN_BY_CHINESE.search(text), text
        assert not _SPACE_IN_CHINESE.search(text), text


@settings(max_examples=50)
@given(cases())
def test_programs_read_the_same_in_every_language(case: Case) -> None:
    """Whatever is not a sentence is the same: verdicts, amounts, patches."""

    def facts(document: dict[str, Any]) -> dict[str, Any]:
        return {
            **document,
            "message": "",
            "warnings": len(document["warnings"]),
            "why": [(why["resource"], why["wants"], len(why["blockedBy"])) for why in document["why"]],
            "changes": [(change["kind"], change["patch"]) for change in document["changes"]],
        }

    assert facts(to_builtins(case.explanation, lang="zh")) == facts(to_builtins(case.explanation))


def _explained(node: Node, asked: Pod) -> list[str]:
    return [say(cause.text, "zh") for cause in explain("n1", node, asked).why]


def test_causes_read_as_a_chinese_engineer_would_write_them() -> None:
    node = admitted(Node.fresh(machine(), config("restricted")), pod("a", 4), pod("b", 4))
    assert _explained(node, pod("new", 5)) == [
        (
            "请求 5 个 CPU：按机器的大小 1 个 NUMA 节点就够，现在却只能放在 NUMA 0+1，restricted 不接受："
            "NUMA 0 可独占 3 个（差 2 个），NUMA 1 可独占 4 个（差 1 个）。"
        )
    ]
    hardware = machine(devices={GPU: {"g0": (0,)}})
    apart = admitted(Node.fresh(hardware, config("restricted")), pod("a", 4))
    assert _explained(apart, pod("new", 5, gpu=1)) == [
        f"请求 5 个 CPU：可以放在 NUMA 1，但 {GPU} 只能放在 NUMA 0。",
        f"请求 1 个 {GPU}：可以放在 NUMA 0，但 CPU 只能放在 NUMA 1。",
    ]
    small = Node.fresh(machine(), config("restricted"))
    (change, *_) = explain("n1", small, pod("new", 20, 8 * GI)).changes
    assert say(change.text, "zh") == "容器 app 改为请求 15 个 CPU（原为 20 个）"


# Facts of every kind that some code has.
SAMPLES: dict[str, Fact] = {
    "resource": GPU,
    "text": "cannot align pod: a",
    "claims": (Reason("volume-claims", (4, ("a", "b", "c", "…"))), Reason("resource-claims", (1, ("gpu",)))),
    "claim": "default/data",
    "pod": "default/web-1",
    "volume": "pv-1",
    "group": "training",
    "problem": 'spec.tolerations[0].operator: Unsupported value: "Near"',
    "policy": "restricted",
    "driver": "block.csi.example.com",
    "key": "dedicated",
    "value": "ai",
    "unknowns": (
        Reason("changes"),
        Reason("device-nodes", (GPU,)),
        Reason("setting", ("memoryManagerPolicy",)),
    ),
    "task": "restricted",
    "node": "best-effort",
    "error": "index out of range [1] with length 1",
    "number": 2,
    "names": ("data", "logs"),
    "name": "cpuManagerPolicyOptions",
}


def sample(code: Code) -> Reason:
    return Reason(code, tuple(SAMPLES[name] for name in FACTS[code]))


@pytest.mark.parametrize("code", FACTS)
def test_every_reason_has_words_in_both_languages(code: Code) -> None:
    reason = sample(code)
    told, zh = say(reason), say(reason, "zh")
    assert not re.search(r"[\u4e00-\u9fff]", told)
    # A setting is named as the kubelet names it, and another's words are quoted.
    assert re.search(r"[\u4e00-\u9fff]", zh) or code in ("setting", "quoted"), zh
    assert not _LATIN_BY_CHINESE.search(zh)
    assert not _SPACE_IN_CHINESE.search(zh)
    assert set(HOLE.findall(ENGLISH.REASONS[code])) == set(HOLE.findall(CHINESE.REASONS[code]))


def test_there_are_words_for_reasons_only() -> None:
    assert set(ENGLISH.REASONS) == set(CHINESE.REASONS) == set(FACTS)


@pytest.mark.parametrize("code", [code for code in FACTS if code not in ("quoted", "setting")])
def test_a_reason_is_read_back_from_the_words_it_is_known_by(code: Code) -> None:
    reason = sample(code)
    assert fit_error.read(say(reason)) == reason


def test_equally_frequent_reasons_stand_in_the_order_of_their_words() -> None:
    counted = [code for code in FACTS if code not in ("quoted", "no-nodes")]
    counted = counted[: counted.index("volume-claims")]
    ordered = most_frequent_first(Counter(sample(code) for code in counted))
    words = [say(reason) for reason, _ in ordered]
    assert words == sorted(words)


def test_the_words_of_kube_scheduler_are_its_own() -> None:
    """As v1.35 has them, byte for byte."""
    assert say(Reason("insufficient", ("cpu",))) == "Insufficient cpu"
    assert say(Reason("untolerated-taint", ("a", "b"))) == "node(s) had untolerated taint {a: b}"
    assert say(Reason("node-affinity")) == "node(s) didn't match Pod's node affinity/selector"


def test_a_fact_that_is_a_message_is_told_wherever_it_stands() -> None:
    facts = {"a": [Message("gap-no-limit", {"resource": "cpu"})], "b": {"c": Message("explain-aligned")}}
    assert worded(facts) == {"a": ["has no cpu limit"], "b": {"c": "aligned"}}
    assert worded(facts, "zh") == {"a": ["没有设置 cpu 限制"], "b": {"c": "对齐"}}


def test_nobody_else_knows_the_words_of_a_reason() -> None:
    """So nobody can compare or search them. What other schedulers say in the same words is their recordings' business."""
    words = [max(re.split(r"\{+\w*(?::\w+)?\}+", text), key=len) for text in ENGLISH.REASONS.values()]
    elsewhere = [path for path in SOURCE.rglob("*.py") if not {"texts", "peers"} & set(path.parts)]
    for path in elsewhere:
        source = path.read_text(encoding="utf-8")
        assert [text for text in words if len(text) > 15 and f'"{text}' in source] == [], path
