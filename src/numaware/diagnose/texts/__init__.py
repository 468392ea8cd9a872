"""Findings, messages and reasons in the languages people read: the only place where facts become sentences."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal, NamedTuple

from numaware.diagnose.finding import Finding, Message
from numaware.diagnose.reason import Reason
from numaware.diagnose.texts.template import MissingFactError, Specs, Text, fill
from numaware.sentence import Sentence

Lang = Literal["en", "zh"]

# A sentence of ours, or a quote: what a kubelet or a scheduler said stays in its own words.
Words = Message | Reason | Sentence | str

_PACKAGES: dict[Lang, str] = {"en": "english", "zh": "chinese"}


class FindingText(NamedTuple):
    """A finding in words."""

    title: str
    cause: str
    fix: tuple[str, ...]


class Language(NamedTuple):
    """All texts of a language, from the tables of these names in the modules of its folder."""

    TEXTS: Mapping[str, Text]  # code, or code/variant
    LABELS: Mapping[str, str]  # what stands beneath a marked line, and the fixed words of the renderers
    REASONS: Mapping[str, str]  # by the code of a reason
    SENTENCES: Mapping[str, str]  # by the English template, which is all that English has of it
    SPECS: Specs


def finding_text(finding: Finding, lang: Lang = "en") -> FindingText:
    """The finding in a language; what a language does not have yet is told in English."""
    variant = f"{finding.code}/{finding.variant}"
    key = variant if variant in language("en").TEXTS else finding.code
    tables = language(lang) if key in language(lang).TEXTS else language("en")
    text = tables.TEXTS[key]
    facts = {"who": label("a-pod", lang), **worded(_with_subject(finding), lang)}
    return FindingText(
        _filled(text.title, facts, tables.SPECS),
        _filled(text.cause, facts, tables.SPECS),
        tuple(_known(text.fix, facts, tables.SPECS)),
    )


def label(message: Message | str, lang: Lang = "en") -> str:
    """A short text by its key."""
    if isinstance(message, str):
        message = Message(message)
    for tables in (language(lang), language("en")):
        if message.key in tables.LABELS:
            return fill(tables.LABELS[message.key], worded(message.facts, lang), tables.SPECS)
    raise KeyError(message.key)


def say(words: Words, lang: Lang = "en") -> str:
    """A message, a reason or a sentence in a language; what somebody else said is quoted as it is."""
    match words:
        case str():
            return words
        case Sentence():
            template = language(lang).SENTENCES.get(words.template, words.template)
            return template.format_map(worded(words.facts, lang))
        case Reason():
            tables = language(lang)
            return fill(tables.REASONS[words.code], worded(words.named_facts, lang), tables.SPECS)
    return label(words, lang)


def worded(value: Any, lang: Lang = "en") -> Any:
    """Facts as plain JSON values: every message, reason and sentence among them is told."""
    match value:
        case Message() | Reason() | Sentence():
            return say(value, lang)
        case dict():
            return {key: worded(one, lang) for key, one in value.items()}
        case list() | tuple():
            return [worded(one, lang) for one in value]
    return value


@cache
def language(lang: Lang) -> Language:
    """The tables of a language; a reader of English never pays for the other texts."""
    package = import_module(f"numaware.diagnose.texts.{_PACKAGES[lang]}")
    modules = [import_module(f"{package.__name__}.{one.name}") for one in iter_modules(package.__path__)]
    tables: list[dict[str, Any]] = [{} for _ in Language._fields]
    for one in modules:
        for table, name in zip(tables, Language._fields, strict=True):
            table.update(vars(one).get(name, {}))
    return Language(*tables)


def _with_subject(finding: Finding) -> dict[str, Any]:
    """The facts, and who it is about: `{pod}` is how people call it, `{who}` says what it is too."""
    subject = finding.subject
    known = {key: value for key in subject.__struct_fields__ if (value := getattr(subject, key))}
    if subject.name:
        known["who"] = f"{subject.namespace}/{subject.name}" if subject.namespace else subject.name
    return {**known, **finding.facts}


class _Unknown(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "?"


def _filled(template: str, facts: Mapping[str, Any], specs: Specs) -> str:
    """The sentence, with a question mark for a fact it cannot do without: better than no answer at all."""
    try:
        return fill(template, facts, specs)
    except MissingFactError:
        plain = dict.fromkeys(specs, str)
        return fill(template, _Unknown(facts), plain)


def _known(fixes: tuple[str, ...], facts: Mapping[str, Any], specs: Specs) -> list[str]:
    filled = []
    for fix in fixes:
        try:
            filled.append(fill(fix, facts, specs))
        except MissingFactError:
            continue
    return filled
