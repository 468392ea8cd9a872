"""What a scheduler wrote on a pod that waits, `0/3 nodes are available: …`, read back into reasons and their facts.

kube-scheduler and a numaware scheduler in another process leave nothing but these words (FitError.Error) in conditions and
events. The patterns are made from the English words of the reasons themselves, so there is one table of them.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from functools import cache
from typing import Any

from numaware.diagnose.finding import Message
from numaware.diagnose.reason import FACTS, Code, Reason, nodes_available
from numaware.diagnose.texts.english.scheduling import REASONS
from numaware.machine.quantity import Quantity
from numaware.workload.pod import units

# No scheduler says more, and nobody should wait for a search through somebody's megabytes.
_LONGEST = 4_000
# The head, the reasons, and what numaware and kube-scheduler add to them.
_SUMMARY = re.compile(
    r"(\d+)/(\d+) nodes are available:?(?: (.*?))?\.?(?: nearest miss: (.*?)\.)?(?: (would fit on .*)\.)?(?: preemption: .*)?",
    re.DOTALL,
)
# Where one counted reason ends and the next begins.
_NEXT = re.compile(r", (?=\d+ )")
_ROOM = re.compile(r"would fit on node (\S+) if (.*) made room; numaware does not preempt yet(, but .*)?")
_SHORT = re.compile(r"node (\S+) is (.*) short on NUMA ([\d+]+)")
_AMOUNT = re.compile(r"(?P<size>[\d.]+ \w+) of (?P<kind>\S+)|(?P<number>\d+) (?P<what>\S+)")


def read(text: str) -> Message | Reason | None:
    """The message or the reason that was put into these words; None where a part of it is nobody's that is known here."""
    if len(text) > _LONGEST:
        return None
    match = _SUMMARY.fullmatch(text)
    if match is None:
        return _reason(text)
    fitting, nodes, reasons, miss, room_text = match.groups()
    room = _room(room_text) if room_text else None
    nearest = _nearest(miss) if miss else None
    if miss and nearest is None:
        return None
    shared = _reason(reasons) if reasons else None
    if shared is not None:
        return nodes_available(int(fitting), int(nodes), shared, nearest, room)
    counts = []
    for part in _NEXT.split(reasons) if reasons else ():
        number, _, words = part.partition(" ")
        reason = _reason(words)
        if not number.isdigit() or reason is None:
            return None
        counts.append((reason, int(number)))
    return nodes_available(int(fitting), int(nodes), counts, nearest, room)


def _reason(text: str) -> Reason | None:
    for pattern, code, specs in _patterns():
        if match := pattern.fullmatch(text):
            facts = match.groupdict()
            return Reason(code, tuple(_READERS[specs[name]](facts[name]) for name in FACTS[code]))
    return None


def _parts(text: str, separator: str) -> tuple[Reason, ...]:
    return tuple(_reason(part) or Reason("setting", (part,)) for part in text.split(separator))


# How the spec of a fact in a template is read; the pattern matches no more than the spec would say.
_READERS: dict[str, Callable[[str], Any]] = {
    "": str,
    "named": str,
    "list": lambda text: tuple(text.split(", ")),
    "and": lambda text: _parts(text, " and "),
    "sorted": lambda text: tuple(sorted(_parts(text, ", "))),
    "volume_claims": lambda text: int(text.partition(" ")[0]),
    "resource_claims": lambda text: int(text.partition(" ")[0]),
}
_SHAPES = {"volume_claims": r"\d+ volume claims?", "resource_claims": r"\d+ resource claims?"}
# Words of their own they have none: everything would be one.
_WORDLESS = ("quoted", "setting")


@cache
def _patterns() -> list[tuple[re.Pattern[str], Code, dict[str, str]]]:
    """Those with more words of their own are tried first."""
    table = []
    for code in FACTS:
        if code in _WORDLESS:
            continue
        pattern, words, specs = "", 0, {}
        for literal, name, spec, _ in string.Formatter().parse(REASONS[code]):
            pattern += re.escape(literal)
            words += len(literal)
            if name is not None:
                specs[name] = spec or ""
                # A resource's name has no blanks in it.
                shape = r"\S+" if name == "resource" else _SHAPES.get(spec or "", ".*?")
                pattern += f"(?P<{name}>{shape})"
        table.append((words, re.compile(pattern, re.DOTALL), code, specs))
    table.sort(key=lambda row: -row[0])
    return [row[1:] for row in table]


def _room(text: str) -> Message | None:
    match = _ROOM.fullmatch(text)
    if match is None:
        return None
    return Message(
        "room-kept" if match[3] else "room-wanted", {"node": match[1], "pods": match[2].split(", ")}
    )


def _nearest(text: str) -> Message | None:
    match = _SHORT.fullmatch(text)
    if match is None:
        return None
    missing = []
    for part in match[2].split(" and "):
        amount = _AMOUNT.fullmatch(part)
        if amount is None:
            return None
        if amount["size"]:
            size = Quantity.parse(amount["size"].replace(" ", "").removesuffix("B"))
            missing.append((amount["kind"], units(size.nano)))
        else:
            cpus = amount["what"] in ("CPU", "CPUs")
            missing.append(("cpu" if cpus else amount["what"], int(amount["number"])))
    nodes = [int(node) for node in match[3].split("+")]
    return Message("nearest-short", {"node": match[1], "missing": missing, "nodes": nodes})
