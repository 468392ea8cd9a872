"""Volcano's scheduler configuration, with the numa-aware plugin put in or taken out and every other byte as it was.

The file is a person's, with comments and an order that mean something. Writing YAML anew, even with a library that keeps
comments, changes indentation, quotes and long lines that nobody asked to change. So nothing is written anew: the marks that
the YAML parser leaves on what it reads say where one entry begins and ends, and only there the text is cut or added to.
The result is read again and has to hold exactly the data that was meant, or the edit is refused.

An entry reaches from the line of its dash to the line of its last value, and over the comment lines right below that are
indented deeper than the dash. What is added goes below the last entry of the last tier that has any, so taking it out
again gives back the bytes that were there before. In which tier it stands makes no difference to this plugin: Volcano
asks all of them for filters and scores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, NamedTuple, TypeVar

import yaml

from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.sentence import Sentence, sentence_of
from numaware.serve.console.world import Status

PLUGIN = "numa-aware"
NAMESPACE = "volcano-system"
MAP = "volcano-scheduler-configmap"
KEY = SOURCE = "volcano-scheduler.conf"
# Where a cluster keeps it, in words.
PLACE = f"ConfigMap {NAMESPACE}/{MAP}, key {KEY}"

# Real ones have one or two thousand characters; the parser that leaves marks is a slow one.
_MOST_CHARACTERS = 64 << 10
_DEEPEST = 50
_OPENING = (yaml.FlowSequenceStartToken, yaml.FlowMappingStartToken)
_CLOSING = (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken)
_BREAK = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")
_BREAKS = "\n\r\x85\u2028\u2029"
_COMMENT = re.compile(r"( *)#")
_T = TypeVar("_T")
_UNREADABLE = (yaml.YAMLError, ValueError, OverflowError, RecursionError)


class _Conf(NamedTuple):
    """The text, what it says (all values as strings), the plugins of each tier, and where dashes stand."""

    text: str
    data: Any
    tiers: Mapping[int, yaml.SequenceNode]
    dashes: tuple[yaml.Mark, ...]


class _Cut(NamedTuple):
    """Characters to take out."""

    start: int
    end: int


def status_of(text: str) -> Status:
    """Whether the plugin is in any tier; `InputError` for a text that is no configuration of Volcano's."""
    conf = _read(text)
    return "open" if any(_ours(conf, tier) for tier in conf.tiers) else "close"


def switched(text: str, status: Status) -> str:
    """The text with the plugin (`open`) or without it (`close`), the same text if that is how it stands already."""
    conf = _read(text)
    if status == ("open" if any(_ours(conf, tier) for tier in conf.tiers) else "close"):
        return text
    meant = deepcopy(conf.data)
    changed = _added(conf, meant) if status == "open" else _removed(conf, meant)
    if _read(changed).data != meant:
        problem = Sentence("{plugin} cannot be switched without changing more", plugin=PLUGIN)
        raise InputError(SOURCE, problem, hint=Sentence("edit it by hand"))
    return changed


# Reading


def _read(text: str) -> _Conf:
    if not text.strip():
        raise InputError(SOURCE, Sentence("is empty"))
    if len(text) > _MOST_CHARACTERS:
        raise InputError(SOURCE, Sentence("is longer than {most} KiB", most=_MOST_CHARACTERS >> 10))
    tokens = _tried(lambda: list(_tokens(text)))
    if any(isinstance(token, yaml.AliasToken) for token in tokens):
        raise InputError(SOURCE, Sentence("has aliases, by which one line stands in several places"))
    root = _tried(lambda: yaml.compose(text, Loader=yaml.BaseLoader))
    # Makes nothing but strings, lists and dicts.
    data = _tried(lambda: yaml.load(text, Loader=yaml.BaseLoader))  # noqa: S506 - see above
    dashes = tuple(token.start_mark for token in tokens if isinstance(token, yaml.BlockEntryToken))
    return _Conf(text, data, _tiers(root), dashes)


def _tokens(text: str) -> Iterator[yaml.Token]:
    """All there are; the parser takes ever longer over each when brackets are deep in one another."""
    depth = 0
    for token in yaml.scan(text, Loader=yaml.BaseLoader):
        depth += isinstance(token, _OPENING) - isinstance(token, _CLOSING)
        if depth > _DEEPEST:
            raise ValueError(Sentence("too many brackets in one another"))
        yield token


def _tried(parse: Callable[[], _T]) -> _T:
    try:
        return parse()
    except _UNREADABLE as error:
        problem = sentence_of(error)
        if isinstance(problem, str):
            problem = printable(" ".join(problem.split()), 300)
        raise InputError(SOURCE, Sentence("is broken YAML: {problem}", problem=problem)) from None


def _tiers(root: yaml.Node | None) -> dict[int, yaml.SequenceNode]:
    """By number, the plugins of each tier that has some."""
    found: dict[int, yaml.SequenceNode] = {}
    for number, tier in enumerate(_items(_fields(root, "it").get("tiers"), "tiers")):
        plugins = _fields(tier, f"tier {number}").get("plugins")
        for place, plugin in enumerate(_items(plugins, f"plugins of tier {number}")):
            _fields(plugin, f"plugin {place} of tier {number}")
        if isinstance(plugins, yaml.SequenceNode) and plugins.value:
            found[number] = plugins
    return found


def _items(node: yaml.Node | None, what: str) -> list[yaml.Node]:
    if node is None or (isinstance(node, yaml.ScalarNode) and node.value in ("", "~", "null")):
        return []
    if not isinstance(node, yaml.SequenceNode):
        raise InputError(f"{SOURCE}:{node.start_mark.line + 1}", Sentence("{what} is not a list", what=what))
    return list(node.value)


def _fields(node: yaml.Node | None, what: str) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        where = f":{node.start_mark.line + 1}" if node is not None else ""
        raise InputError(f"{SOURCE}{where}", Sentence("{what} is not a mapping", what=what))
    found: dict[str, yaml.Node] = {}
    for key, value in node.value:
        name = key.value if isinstance(key, yaml.ScalarNode) else ""
        if name in found or name == "<<":
            problem = Sentence("{name} is there twice or merges", name=printable(name, 80))
            raise InputError(f"{SOURCE}:{key.start_mark.line + 1}", problem)
        found[name] = value
    return found


def _ours(conf: _Conf, tier: int) -> list[int]:
    """Which plugins of a tier are the one that is switched."""
    plugins = conf.data["tiers"][tier]["plugins"]
    return [place for place, plugin in enumerate(plugins) if plugin.get("name") == PLUGIN]


# Adding


def _added(conf: _Conf, meant: Any) -> str:
    if not conf.tiers:
        hint = Sentence("Volcano needs some to schedule anything")
        raise InputError(SOURCE, Sentence("has no tier with plugins"), hint=hint)
    tier = max(conf.tiers)
    meant["tiers"][tier]["plugins"].append({"name": PLUGIN})
    text, plugins = conf.text, conf.tiers[tier]
    if plugins.flow_style:
        at = plugins.value[-1].end_mark.index
        return f'{text[:at]}, {{"name": "{PLUGIN}"}}{text[at:]}'
    dash = _dash(conf, plugins.value[-1])
    at = _end(conf, plugins.value[-1])
    line = f"{' ' * dash.column}- name: {PLUGIN}"
    found = _BREAK.search(text)
    line_break = found.group() if found else "\n"
    if text[at - 1] in _BREAKS:
        return f"{text[:at]}{line}{line_break}{text[at:]}"
    return f"{text}{line_break}{line}"


# Taking out


def _removed(conf: _Conf, meant: Any) -> str:
    cuts = []
    for tier, plugins in conf.tiers.items():
        places = _ours(conf, tier)
        left = [one for place, one in enumerate(conf.data["tiers"][tier]["plugins"]) if place not in places]
        # A block of which nothing is left reads as nothing at all.
        meant["tiers"][tier]["plugins"] = left if left or plugins.flow_style else ""
        for place in places:
            cuts += (
                _flow_cuts(conf, plugins, place) if plugins.flow_style else [_block_cut(conf, plugins, place)]
            )
    text = conf.text
    for start, end in sorted(cuts, reverse=True):
        text = text[:start] + text[end:]
    return text


def _block_cut(conf: _Conf, plugins: yaml.SequenceNode, place: int) -> _Cut:
    text = conf.text
    start = _line_start(text, _dash(conf, plugins.value[place]).index)
    end = _end(conf, plugins.value[place])
    if end == len(text) and text[-1] not in _BREAKS:
        # The file ended without a line break, and does so still.
        start -= 2 if text[:start].endswith("\r\n") else 1
    return _Cut(start, end)


def _flow_cuts(conf: _Conf, plugins: yaml.SequenceNode, place: int) -> list[_Cut]:
    """The entry, and the comma before it, or after it where it is the first; blanks next to that comma too."""
    node = plugins.value[place]
    entry = _Cut(node.start_mark.index, node.end_mark.index)
    if place:
        gap = _Cut(plugins.value[place - 1].end_mark.index, entry.start)
    elif len(plugins.value) > 1:
        gap = _Cut(entry.end, plugins.value[1].start_mark.index)
    else:
        return [entry]
    between = conf.text[gap.start : gap.end]
    if not between.strip(" ,"):
        return [_Cut(min(gap.start, entry.start), max(gap.end, entry.end))]
    comma = gap.start + between.index(",")
    return [entry, _Cut(comma, comma + 1)]


# Where things are


def _dash(conf: _Conf, entry: yaml.Node) -> yaml.Mark:
    """The dash before an entry of a block."""
    return max(
        (mark for mark in conf.dashes if mark.index < entry.start_mark.index), key=lambda mark: mark.index
    )


def _end(conf: _Conf, entry: yaml.Node) -> int:
    """The start of the line below an entry of a block."""
    text, leaf = conf.text, entry
    while isinstance(leaf, yaml.CollectionNode) and not leaf.flow_style:
        leaf = leaf.value[-1][1] if isinstance(leaf, yaml.MappingNode) else leaf.value[-1]
    at = leaf.end_mark.index
    # Only a text of several lines (`|`) has its end on the line below.
    if leaf.end_mark.column or text[at - 1] not in _BREAKS:
        at = _line_end(text, at)
    column = _dash(conf, entry).column
    while (comment := _COMMENT.match(text, at)) and len(comment.group(1)) > column:
        at = _line_end(text, at)
    return at


def _line_start(text: str, at: int) -> int:
    while at and text[at - 1] not in _BREAKS:
        at -= 1
    return at


def _line_end(text: str, at: int) -> int:
    found = _BREAK.search(text, at)
    return found.end() if found else len(text)
