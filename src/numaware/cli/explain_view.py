"""An explanation as lines for a terminal: the verdict, the node with the pod on it, why, and what would help.

Names in it are a stranger's: whatever they hold, no line is wider than the room, and no terminal command gets through.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from numaware.diagnose.capacity import Zone, resources, zones
from numaware.diagnose.explanation import Explanation, Placement
from numaware.diagnose.wording import amount_of, node_list, quantity_of
from numaware.machine.drawing.lines import GLUE, Line, Span, clip, width, wrap
from numaware.machine.words import printable
from numaware.twin.node import Node

_BAR = 32
_MARGIN = 11
_LONGEST = 1_000
_NODE = re.compile(r"\bNUMA (?=\d)")
_HELD, _SYSTEM, _NEW, _FREE = "■", "▨", "◆", "□"
_LEGEND = ((_SYSTEM, "reserved"), (_HELD, "held"), (_NEW, "this pod"), (_FREE, "free"))


def lines(explanation: Explanation, room: int) -> Iterator[Line]:
    """The whole explanation, no line wider than `room`."""
    yield from _verdict(explanation, room)
    yield from _picture(explanation, room)
    if explanation.admitted:
        yield from _placements(explanation, room)
    else:
        yield from _why(explanation, room)
        yield from _fixes(explanation, room)
    for warning in explanation.warnings:
        yield ()
        yield from paragraph(f"⚠ {warning}", room, hang=2, style="warning")


def paragraph(text: str, room: int, *, indent: int = 0, hang: int = 0, style: str = "") -> Iterator[Line]:
    """Safe text in as many lines as it needs."""
    for line in wrap(_safe(text), room - indent, hang):
        yield (Span(" " * indent + line, style),)


def _safe(text: str) -> str:
    """The text without what a terminal would obey; glue between words stays, and a node keeps its number."""
    shown = GLUE.join(printable(part, _LONGEST) for part in text.split(GLUE))
    return _NODE.sub(f"NUMA{GLUE}", shown)


def _verdict(explanation: Explanation, room: int) -> Iterator[Line]:
    pod = f"{explanation.pod.namespace}/{explanation.pod.name}"
    if explanation.admitted:
        yield from paragraph(f"✓ {pod} would be admitted by {explanation.name}", room, hang=2, style="bold")
    else:
        always = "" if explanation.admitted_when_empty else ", even if nothing else ran there"
        told = f"✗ {pod} would be refused by {explanation.name}{always}: {explanation.reason}"
        yield from paragraph(told, room, hang=2, style="warning")
        yield from paragraph(f"the kubelet says: {explanation.message}", room, indent=2, style="quiet")
    yield from paragraph(_kubelet(explanation.node), room, indent=2, style="quiet")


def _kubelet(node: Node) -> str:
    config = node.kubelet.config
    options = [name for name, value in (*config.topology_options, *config.cpu_options) if value != "false"]
    scope = f", {config.topology_scope} scope" if config.topology_policy != "none" else ""
    parts = [
        f"kubelet {config.version}",
        f"topology {config.topology_policy}{scope}",
        f"CPU manager {config.cpu_policy}",
        f"memory manager {config.memory_policy}",
        *options,
    ]
    return " · ".join(part.replace(" ", GLUE) for part in parts)


def _picture(explanation: Explanation, room: int) -> Iterator[Line]:
    """One row per NUMA node: its CPUs as a bar, then what is free of everything, before the pod comes."""
    before, after = explanation.node, explanation.after
    everything = {resource: zones(before, resource) for resource in resources(before)}
    table = {resource: found for resource, found in everything.items() if any(zone.total for zone in found)}
    if not table:
        return
    yield ()
    mine = {zone.numa: zone.free for zone in zones(after, "cpu")} if explanation.admitted else {}
    widest = max((zone.total for zone in table.get("cpu", ())), default=0)
    cells = min(_BAR, widest, room - _MARGIN)
    columns = {
        resource: max(width(_left(resource, zone)) for zone in found) for resource, found in table.items()
    }
    drawn: set[str] = set()
    for index, number in enumerate(before.kubelet.layout.ids):
        row = []
        if "cpu" in table:
            zone = table["cpu"][index]
            row.append(_bar(zone, zone.free - mine.get(zone.numa, zone.free), widest, cells))
            drawn.update(row[0])
        for resource, found in table.items():
            text = _left(resource, found[index])
            row.append(text + " " * (columns[resource] - width(text)))
        for place, text in enumerate(_rows(row, room - _MARGIN)):
            head = f"  NUMA {number}" if place == 0 else ""
            yield (Span(head.ljust(_MARGIN), f"numa-{number % 8}"), Span(text))
    legend = [f"{glyph} {meaning}".replace(" ", GLUE) for glyph, meaning in _LEGEND if glyph in drawn]
    if legend:
        yield from paragraph(f"CPUs: {'  '.join(legend)}", room, indent=_MARGIN, style="quiet")


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


def _left(resource: str, zone: Zone) -> str:
    name = "CPUs" if resource == "cpu" else printable(resource)
    if not zone.total:
        return f"no {name}"
    return f"{quantity_of(resource, zone.free)} of {quantity_of(resource, zone.total)} {name} free"


def _bar(zone: Zone, new: int, widest: int, cells: int) -> str:
    """CPUs of one node to scale; a part that is not empty shows at least one mark."""
    length = max(1, zone.total * cells // widest) if zone.total else 0
    held = max(0, zone.total - zone.free - zone.reserved)
    marks = ""
    for amount, glyph in ((zone.reserved, _SYSTEM), (held, _HELD), (new, _NEW)):
        marks += glyph * (max(1, amount * length // zone.total) if amount else 0)
    return (marks[:length] + _FREE * (length - len(marks))).ljust(cells)


def _placements(explanation: Explanation, room: int) -> Iterator[Line]:
    yield ()
    table = [
        (placed.container, " · ".join(_parts(explanation.node, placed))) for placed in explanation.placements
    ]
    yield from _table(table, room, "bold")


def _parts(node: Node, placed: Placement) -> Iterator[str]:
    layout = node.kubelet.layout
    touched: set[int] = set()
    if placed.cpus is None:
        yield "CPUs from the shared pool"
    else:
        nodes = [
            number
            for number, cpus in zip(layout.ids, layout.node_cpus, strict=True)
            if cpus & placed.cpus.mask
        ]
        touched.update(nodes)
        yield f"{'CPU' if len(placed.cpus) == 1 else 'CPUs'} {placed.cpus} on {node_list(nodes)}"
    for block in placed.memory:
        numbers = layout.node_ids(block.nodes)
        touched.update(numbers)
        yield f"{amount_of(block.kind, block.size)} on {node_list(numbers)}"
    for resource, counts in placed.devices.items():
        touched.update(numa for numa in counts if numa >= 0)
        where = ", ".join(
            f"{count} on {node_list([numa])}" if numa >= 0 else f"{count} without NUMA node"
            for numa, count in counts.items()
        )
        yield f"{resource}: {where}"
    if len(touched) == 1:
        yield "aligned"
    elif touched:
        yield f"spread over {node_list(sorted(touched))}"


def _why(explanation: Explanation, room: int) -> Iterator[Line]:
    yield ()
    yield (Span("why", "bold"),)
    for cause in explanation.why:
        yield from _table([(cause.resource, cause.text)], room, margin=_head_width(explanation, room))
        for blocker in cause.blocked_by:
            indent = _head_width(explanation, room) + 6
            yield from paragraph(blocker, room, indent=indent, hang=2, style="quiet")


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


def _fixes(explanation: Explanation, room: int) -> Iterator[Line]:
    yield ()
    if not explanation.changes:
        told = "no change to requests, policy, options or running pods was found that would admit it here"
        yield from paragraph(told, room, style="bold")
        return
    told = "any one of these would admit it (each was tried on the twin)"
    yield from paragraph(told, room, style="bold")
    rows = [(f"{number}", change.text) for number, change in enumerate(explanation.changes, 1)]
    yield from _table(rows, room)
