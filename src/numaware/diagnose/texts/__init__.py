"""Findings, messages and reasons in the languages people read: the only place where facts become sentences."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal, NamedTuple, Protocol, cast, get_args

from numaware.diagnose.finding import Finding, Message
from numaware.diagnose.reason import Reason
from numaware.diagnose.texts.template import MissingFactError, Specs, Text, fill
from numaware.sentence import Sentence

Lang = Literal["en", "zh"]
LANGUAGES: tuple[Lang, ...] = get_args(Lang)

# A sentence of ours, or a quote: what a kubelet or a scheduler said stays in its own words.
Words = Message | Reason | Sentence | str

_MODULES: dict[Lang, str] = {"en": "english", "zh": "chinese"}


class FindingText(NamedTuple):
    """A finding in words."""

    title: str
    cause: str
    fix: tuple[str, ...]


class _Language(Protocol):
    TEXTS: Mapping[str, Text]  # code, or code/variant
    LABELS: Mapping[str, str]  # what stands beneath a marked line, and the fixed words of the renderers
    REASONS: Mapping[str, str]  # by the code of a reason
    SENTENCES: Mapping[str, str]  # by the English template
    SPECS: Specs


def finding_text(finding: Finding, lang: Lang = "en") -> FindingText:
    """The finding in a language; what a language does not have yet is told in English."""
    variant = f"{finding.code}/{finding.variant}"
    key = variant if variant in _language("en").TEXTS else finding.code
    language = _language(lang) if key in _language(lang).TEXTS else _language("en")
    text = language.TEXTS[key]
    facts = {"who": label("a-pod", lang), **worded(_with_subject(finding), lang)}
    return FindingText(
        _filled(text.title, facts, language.SPECS),
        _filled(text.cause, facts, language.SPECS),
        tuple(_known(text.fix, facts, language.SPECS)),
    )


def label(message: Message | str, lang: Lang = "en") -> str:
    """A short text by its key."""
    if isinstance(message, str):
        message = Message(message)
    for language in (_language(lang), _language("en")):
        if message.key in language.LABELS:
            return fill(language.LABELS[message.key], worded(message.facts, lang), language.SPECS)
    raise KeyError(message.key)


def say(words: Words, lang: Lang = "en") -> str:
    """A message, a reason or a sentence in a language; what somebody else said is quoted as it is."""
    match words:
        case str():
            return words
        case Sentence():
            template = _language(lang).SENTENCES.get(words.template, words.template)
            return template.format_map(worded(words.facts, lang))
        case Reason():
            language = _language(lang)
            return fill(language.REASONS[words.code], worded(words.named_facts, lang), language.SPECS)
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


def _language(lang: Lang) -> _Language:
    # A reader of English never pays for the other texts.
    return cast("_Language", import_module(f"numaware.diagnose.texts.{_MODULES[lang]}"))


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
