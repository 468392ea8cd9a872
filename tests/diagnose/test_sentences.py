"""Sentences of ours are values: each has its Chinese from the same facts, and none is parsed or compared anywhere."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from numaware.diagnose.texts import language, say
from numaware.errors import InputError
from numaware.sentence import Sentence, quoted, sentence_of
from numaware.twin.rules import RULES

ENGLISH = language("en")
CHINESE = language("zh")

SOURCE = Path(__file__).parents[2] / "src" / "numaware"
# Who raises or keeps a sentence that people read in either language.
RAISERS = {"ProblemError", "InputError", "SwitchError", "_NotUpError", "_token_needed", "Problem", "Switch"}
TOLD_IN_CHINESE = ("serve/console", "workload/manifest.py", "workload/yamlfile.py")
# Raised when the program starts, on the command line, in English.
TERMINAL_ONLY = ("serve/console/app.py", "serve/console/openfuyao/prometheus.py")
# Words of the API server, which people know from kubectl, and of HTTP.
QUOTED = {"Required value", 'Bearer realm="kubernetes"'}
# What operating systems and databases say; see `HistoryWriter._fail`.
SYSTEM = {
    "database or disk is full",
    "disk I/O error",
    "No space left on device",
    "Permission denied",
    "Read-only file system",
    "attempt to write a readonly database",
}
# The rules of kubelets, which stand in a table of their own.
RULES_SAY = {rule.says for rule in RULES.values()}
# A sentence that was kept, one that an operating system says, and one of that table have no template where they are made.
WITHOUT_TEMPLATE = {
    "diagnose/upgrade.py",
    "serve/console/history/snapshot.py",
    "serve/console/history/writer.py",
}


class Said(NamedTuple):
    """A sentence in the source: where, its template, and the facts it is given."""

    where: str
    template: str
    facts: frozenset[str]


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


MODULES = dict(_modules())


def _calls(tree: ast.Module, *names: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            yield node


def _said() -> Iterator[Said]:
    for where, tree in MODULES.items():
        for call in _calls(tree, "Sentence"):
            if not call.args:
                continue
            template = call.args[0]
            if isinstance(template, ast.Constant) and isinstance(template.value, str):
                yield Said(where, template.value, frozenset(word.arg or "**" for word in call.keywords))
            else:
                assert where in WITHOUT_TEMPLATE, f"{where}:{call.lineno} makes its template"


SAID = list(_said())


def _holes(template: str) -> set[tuple[str, str | None, str | None]]:
    return {
        (name, spec, conversion)
        for _, name, spec, conversion in string.Formatter().parse(template)
        if name is not None
    }


def _names(template: str) -> set[str]:
    return {name for name, _, _ in _holes(template)}


def _has_words(template: str) -> bool:
    """Whether anything is said beside the facts."""
    return any(letter.isalpha() for text, *_ in string.Formatter().parse(template) for letter in text)


@pytest.mark.parametrize("said", SAID, ids=lambda said: f"{said.where}: {said.template}")
def test_every_sentence_has_its_facts_and_its_chinese(said: Said) -> None:
    assert _names(said.template) == said.facts
    if _has_words(said.template):
        assert said.template in CHINESE.SENTENCES


@pytest.mark.parametrize(("template", "told"), sorted(CHINESE.SENTENCES.items()))
def test_every_sentence_is_told_in_both_languages_from_the_same_facts(template: str, told: str) -> None:
    assert template in SYSTEM | RULES_SAY or template in {said.template for said in SAID}
    assert _holes(template) == _holes(told)
    facts = {name: 7 if template.find(f"{{{name}:g}}") >= 0 else f"{{{name}}}" for name in _names(template)}
    sentence = Sentence(template, **facts)
    assert str(sentence) == say(sentence, "en")
    for text in (say(sentence, "en"), say(sentence, "zh")):
        assert all(str(fact) in text for fact in facts.values())
    if _has_words(template):
        assert any("\u4e00" <= letter <= "\u9fff" for letter in say(sentence, "zh")) or "Invalid" in template


def _leaves(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.BoolOp():
            for value in node.values:
                yield from _leaves(value)
        case ast.IfExp():
            yield from _leaves(node.body)
            yield from _leaves(node.orelse)
        case _:
            yield node


def _bare(tree: ast.Module) -> Iterator[str]:
    """English that is handed to a raiser as such, directly or by a name that the module gives to a text."""

    def text(node: ast.expr) -> str:
        if isinstance(node, ast.JoinedStr):
            return "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""

    named: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named.setdefault(node.targets[0].id, []).extend(text(leaf) for leaf in _leaves(node.value))
    for call in _calls(tree, *RAISERS):
        for given in (
            *call.args,
            *(word.value for word in call.keywords if word.arg not in ("headers", "place")),
        ):
            for leaf in _leaves(given):
                yield text(leaf)
                if isinstance(leaf, ast.Name):
                    yield from named.get(leaf.id, ())


@pytest.mark.parametrize(
    "where", [where for where in MODULES if where.startswith(TOLD_IN_CHINESE) and where not in TERMINAL_ONLY]
)
def test_what_a_reader_of_chinese_may_see_is_raised_as_a_sentence(where: str) -> None:
    bare = [text for text in _bare(MODULES[where]) if re.search(r"[a-z] [a-z]", text)]
    assert [text for text in bare if text not in QUOTED] == []


# Methods and functions that look for a text in another.
SEARCHES = {"startswith", "endswith", "removeprefix", "removesuffix", "find", "index", "count", "partition"}
SEARCHES |= {"rpartition", "split", "replace", "compile", "search", "match", "fullmatch", "sub", "findall"}
# What other processes have written is read here: logs, state files, messages on pods, the API server's and kubelets' words.
READERS = ("diagnose/evidence/",)


def _searched(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Texts that something is compared with, or looked for in something."""
    for node in ast.walk(tree):
        looked: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            looked = [node.left, *node.comparators]
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SEARCHES
        ):
            looked = list(node.args)
        elif isinstance(node, ast.MatchValue):
            looked = [node.value]
        for expression in looked:
            for part in ast.walk(expression):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value


def _ours() -> str:
    """All that we say in English."""
    texts = [said.template for said in SAID]
    texts += [
        part.value
        for tree in MODULES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]
    texts += [*ENGLISH.LABELS.values(), *ENGLISH.REASONS.values()]
    texts += [part for text in ENGLISH.TEXTS.values() for part in (text.title, text.cause, *text.fix)]
    return "\n".join(texts)


def test_no_sentence_of_ours_is_parsed_or_compared() -> None:
    ours = _ours()
    found = [
        f"{where}:{line}: {words}"
        for where, tree in MODULES.items()
        if not where.startswith(READERS)
        for line, text in _searched(tree)
        for words in re.findall(r"[A-Za-z]+(?: [A-Za-z]+){2,}", text)
        if words in ours
    ]
    assert found == []


def test_facts_are_filled_in_and_never_read_as_templates() -> None:
    said = Sentence("there is no node {name!r}", name="{name} {0} {{}}")
    assert str(said) == "there is no node '{name} {0} {{}}'"
    assert say(said, "zh") == "没有节点 '{name} {0} {{}}'"
    outer = Sentence("body: {problem}", problem=said)
    assert say(outer, "zh") == "请求体：没有节点 '{name} {0} {{}}'"


def test_a_problem_keeps_its_source_and_what_others_said() -> None:
    problem = Sentence("expected a mapping, got a JSON {kind}", kind="array")
    where = Sentence("{path}: {text}", path="spec", text=problem)
    error = InputError("pod.yaml:3", where, hint=Sentence("and {count} more", count=2))
    assert str(error) == "pod.yaml:3: spec: expected a mapping, got a JSON array (and 2 more)"
    assert say(error.sentence, "zh") == "pod.yaml:3：spec：应为映射，实为 JSON array（以及另外 2 个）"
    foreign = InputError("pod.yaml:3", 'metadata.name: Invalid value: "A": must be lower case')
    assert say(foreign.sentence, "zh") == 'pod.yaml:3：metadata.name: Invalid value: "A": must be lower case'
    assert say(quoted("configmaps is forbidden"), "zh") == "configmaps is forbidden"


def test_an_error_says_the_sentence_it_was_raised_with() -> None:
    said = Sentence("is missing")
    assert sentence_of(ValueError(said)) is said
    assert str(ValueError(said)) == "is missing"
    assert sentence_of(ValueError("{")) == "{"
    assert sentence_of(OSError(28, "No space left on device")) == "[Errno 28] No space left on device"
    assert sentence_of(ValueError()) == ""
    assert {said, Sentence("is missing")} == {said}
    assert said != Sentence("is missing", name="x")
    assert repr(said) == "Sentence('is missing', {})"
    assert not Sentence()
