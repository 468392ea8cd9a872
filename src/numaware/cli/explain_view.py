"""An explanation as lines for a terminal: the verdict, the node with the pod on it, why, and what would help.

Names in it are a stranger's: whatever they hold, no line is wider than the room, and no terminal command gets through.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from numaware.diagnose.explain.explanation import UNSCHEDULABLE, Explanation
from numaware.diagnose.finding import Message
from numaware.diagnose.reason import Reason
from numaware.diagnose.texts import Lang, label, say
from numaware.machine.cpuset import CpuSet
from numaware.machine.drawing.lines import GLUE, Line, Span, clip, width, wrap
from numaware.machine.words import printable
from numaware.sentence import Sentence
from numaware.twin.account import ContainerPlacement, NumaAccount, account, resources
from numaware.twin.node import Node
from numaware.twin.rules import named_version

_BAR = 32
_MARGIN = 11
_LONGEST = 1_000
_MOST_NAMES = 5
_NODE = re.compile(r"\bNUMA (?=\d)")
_HELD, _SYSTEM, _NEW, _FREE = "■", "▨", "◆", "□"
_LEGEND = (
    (_SYSTEM, "explain-reserved"),
    (_HELD, "explain-held"),
    (_NEW, "explain-new"),
    (_FREE, "explain-free"),
)


def lines(explanation: Explanation, room: int, lang: Lang = "en") -> Iterator[Line]:
    """The whole explanation, no line wider than `room`."""
    yield from _verdict(explanation, room, lang)
    for part in explanation.dra:
        yield from paragraph(say(part.text, lang), room, indent=2, hang=2, style="warning")
    yield from picture(
        explanation.node, explanation.after if explanation.admitted else explanation.node, room, lang
    )
    if explanation.admitted:
        yield from _placements(explanation, room, lang)
    else:
        yield from _why(explanation, room, lang)
        yield from _fixes(explanation, room, lang)
    for warning in explanation.warnings:
        yield ()
        yield from paragraph(f"⚠ {say(warning, lang)}", room, hang=2, style="warning")


def by_reasons(answers: Iterable[tuple[str, tuple[Reason, ...]]]) -> dict[tuple[Reason, ...], list[str]]:
    """Names of nodes by the reasons they give."""
    groups: dict[tuple[Reason, ...], list[str]] = {}
    for name, reasons in answers:
        groups.setdefault(reasons, []).append(name)
    return groups


def grouped(
    groups: Mapping[tuple[Reason, ...], Sequence[str]],
    room: int,
    lang: Lang,
    aligned: Mapping[str, bool | None] | None = None,
) -> Iterator[Line]:
    """Nodes by the reasons they give, those that give none first, then the many before the few.

    Those that give none are told by how the pod would lie there, where `aligned` says so: aligned ones first.
    """
    for reasons, names in sorted(groups.items(), key=lambda item: (item[0] != (), -len(item[1]), item[0])):
        if reasons:
            yield from _group(phrase("reasons", lang, reasons=reasons), names, room, lang)
            continue
        for how in (True, False, None):
            alike = [name for name in names if (aligned or {}).get(name) is how]
            if alike:
                yield from _group(phrase("whatif-takes", lang, **lying(how, lang)), alike, room, lang)


def lying(aligned: bool | None, lang: Lang) -> dict[str, str]:
    """How a pod lies on its NUMA nodes, as a fact of a phrase; none for one that owns nothing of any."""
    return {} if aligned is None else {"how": label("explain-aligned" if aligned else "whatif-split", lang)}


def _group(said: str, names: Sequence[str], room: int, lang: Lang) -> Iterator[Line]:
    yield from paragraph(phrase("whatif-group", lang, count=len(names), said=said), room, hang=2)
    more = {"more": len(names) - _MOST_NAMES} if len(names) > _MOST_NAMES else {}
    shown = phrase("whatif-names", lang, names=names[:_MOST_NAMES], **more)
    yield from paragraph(shown, room, indent=2, style="quiet")


def paragraph(text: str, room: int, *, indent: int = 0, hang: int = 0, style: str = "") -> Iterator[Line]:
    """Safe text in as many lines as it needs."""
    for line in wrap(_safe(text), room - indent, hang):
        yield (Span(" " * indent + line, style),)


def note(remark: Message | Sentence, room: int, lang: Lang) -> Iterator[Line]:
    """A remark at the end of a page."""
    return paragraph(phrase("note", lang, note=remark), room, hang=2, style="quiet")


def separated(blocks: Iterable[Iterable[Line]]) -> list[Line]:
    """Blocks of lines with an empty line between them."""
    page: list[Line] = []
    for block in blocks:
        page += [*([()] if page else []), *block]
    return page


def _safe(text: str) -> str:
    """The text without what a terminal would obey; glue between words stays, and a node keeps its number."""
    shown = GLUE.join(printable(part, _LONGEST) for part in text.split(GLUE))
    return _NODE.sub(f"NUMA{GLUE}", shown)


def _verdict(explanation: Explanation, room: int, lang: Lang) -> Iterator[Line]:
    pod = f"{explanation.pod.namespace}/{explanation.pod.name}"
    facts = {"pod": pod, "node": explanation.name, "reason": explanation.reason}
    if explanation.admitted:
        yield from paragraph(phrase("explain-admitted", lang, **facts), room, hang=2, style="bold")
    else:
        key = "explain-refused" if explanation.admitted_when_empty else "explain-never"
        unsent = explanation.reason == UNSCHEDULABLE
        key = "explain-unschedulable" if unsent else key
        yield from paragraph(phrase(key, lang, **facts), room, hang=2, style="warning")
        if not unsent:
            said = phrase("explain-says", lang, message=explanation.message)
            yield from paragraph(said, room, indent=2, style="quiet")
    yield from paragraph(_kubelet(explanation.node, lang), room, indent=2, style="quiet")


def phrase(key: str, lang: Lang, **facts: Any) -> str:
    """One of our fixed texts with these facts in it."""
    return label(Message(key, facts), lang)


def _kubelet(node: Node, lang: Lang) -> str:
    config = node.kubelet.config
    options = [name for name, value in (*config.topology_options, *config.cpu_options) if value != "false"]
    scope = {"scope": config.topology_scope} if config.topology_policy != "none" else {}
    parts = [
        f"kubelet {named_version(config.version)}",
        phrase("explain-topology", lang, policy=config.topology_policy, **scope),
        phrase("explain-cpus", lang, policy=config.cpu_policy),
        phrase("explain-memory", lang, policy=config.memory_policy),
        *options,
    ]
    return " · ".join(part.replace(" ", GLUE) for part in parts)


def picture(before: Node, after: Node, room: int, lang: Lang) -> Iterator[Line]:
    """One row per NUMA node: its CPUs as a bar, then what is free of everything before the pod comes."""
    everything = {resource: account(before, resource) for resource in resources(before)}
    table = {resource: parts for resource, parts in everything.items() if any(part.total for part in parts)}
    if not table:
        return
    yield ()
    yield (Span(f"  {label('explain-room', lang)}", "quiet"),)
    left = {part.numa: part.free for part in account(after, "cpu")}
    widest = max((part.total for part in table.get("cpu", ())), default=0)
    cells = min(_BAR, widest, room - _MARGIN)
    columns = {
        resource: max(width(_left(resource, part, lang)) for part in parts)
        for resource, parts in table.items()
    }
    drawn: set[str] = set()
    for index, number in enumerate(before.kubelet.layout.ids):
        row = []
        if "cpu" in table:
            part = table["cpu"][index]
            row.append(_bar(part, part.free - left.get(part.numa, part.free), widest, cells))
            drawn.update(row[0])
        for resource, parts in table.items():
            text = _left(resource, parts[index], lang)
            row.append(text + " " * (columns[resource] - width(text)))
        for place, text in enumerate(_rows(row, room - _MARGIN)):
            head = f"  NUMA {number}" if place == 0 else ""
            yield (Span(head.ljust(_MARGIN), f"numa-{number % 8}"), Span(text))
    legend = [
        f"{glyph} {label(meaning, lang)}".replace(" ", GLUE) for glyph, meaning in _LEGEND if glyph in drawn
    ]
    if legend:
        line = phrase("explain-legend", lang, legend="  ".join(legend))
        yield from paragraph(line, room, indent=_MARGIN, style="quiet")


def _rows(cells: Sequence[str], room: int) -> Iterator[str]:
    """The cells side by side, on as many rows as they need."""
    row = ""
    for cell in cells:
        if row and width(row) + 2 + width(cell.rstrip()) > room:
            yield row.rstrip()
            row = ""
        row += f"  {cell}" if row else cell
        if width(row.rstrip()) > room:
            yield from wrap(row.rstrip(), room)
            row = ""
    if row:
        yield row.rstrip()


def _left(resource: str, part: NumaAccount, lang: Lang) -> str:
    name = printable(resource)
    if not part.total:
        return phrase("explain-none", lang, resource=name)
    free, total = (resource, part.free), (resource, part.total)
    return phrase("explain-left", lang, resource=name, free=free, total=total)


def _bar(part: NumaAccount, new: int, widest: int, cells: int) -> str:
    """CPUs of one node to scale; a part that is not empty shows at least one mark."""
    length = max(1, part.total * cells // widest) if part.total else 0
    marks = ""
    for amount, glyph in ((part.reserved, _SYSTEM), (part.held, _HELD), (new, _NEW)):
        marks += glyph * (max(1, amount * length // part.total) if amount else 0)
    return (marks[:length] + _FREE * (length - len(marks))).ljust(cells)


def _placements(explanation: Explanation, room: int, lang: Lang) -> Iterator[Line]:
    yield ()
    table = [
        (placed.name, " · ".join(_parts(explanation.node, placed, lang))) for placed in explanation.placements
    ]
    yield from _table(table, room, "bold")


def _parts(node: Node, placed: ContainerPlacement, lang: Lang) -> Iterator[str]:
    layout = node.kubelet.layout
    touched: set[int] = set()
    if not placed.cpus:
        yield label("explain-shared", lang)
    else:
        nodes = layout.node_ids(layout.nodes_of(CpuSet.parse(placed.cpus).mask))
        touched.update(nodes)
        yield phrase("explain-own", lang, cpus=placed.cpus, nodes=nodes)
    for nodes, kind, size in placed.memory:
        touched.update(nodes)
        yield phrase("explain-block", lang, amount=(kind, size), nodes=nodes)
    for resource, counts in placed.devices:
        touched.update(numa for numa, _ in counts if numa >= 0)
        yield phrase("explain-devices", lang, resource=resource, held=dict(counts))
    if len(touched) == 1:
        yield label("explain-aligned", lang)
    elif touched:
        yield phrase("explain-spread", lang, nodes=sorted(touched))


def _why(explanation: Explanation, room: int, lang: Lang) -> Iterator[Line]:
    yield ()
    yield (Span(label("why", lang), "bold"),)
    for cause in explanation.why:
        yield from _table(
            [(cause.resource, say(cause.text, lang))], room, margin=_head_width(explanation, room)
        )
        for blocker in cause.blocked_by:
            indent = _head_width(explanation, room) + 6
            yield from paragraph(say(blocker, lang), room, indent=indent, hang=2, style="quiet")


def _head_width(explanation: Explanation, room: int) -> int:
    return min(room // 4, max(width(printable(cause.resource)) for cause in explanation.why))


def _table(rows: Sequence[tuple[str, str]], room: int, style: str = "", margin: int = 0) -> Iterator[Line]:
    """Heads on the left, texts on the right; a head that is too wide is cut."""
    margin = margin or min(room // 3, max(width(printable(head)) for head, _ in rows))
    for head, text in rows:
        shown = clip(printable(head), margin)
        for number, line in enumerate(wrap(_safe(text), room - margin - 4)):
            left = shown if number == 0 else ""
            yield (Span(f"  {left}{' ' * (margin - width(left))}  ", style), Span(line))


def _fixes(explanation: Explanation, room: int, lang: Lang) -> Iterator[Line]:
    yield ()
    if not explanation.changes:
        yield from paragraph(label("explain-no-change", lang), room, style="bold")
        return
    yield from paragraph(label("explain-changes", lang), room, style="bold")
    rows = [(f"{number}", say(change.text, lang)) for number, change in enumerate(explanation.changes, 1)]
    yield from _table(rows, room)
