"""An explanation as lines for a terminal: the verdict, the node with the pod on it, why, and what would help."""

from __future__ import annotations

from collections.abc import Iterator

from numaware.diagnose.capacity import Zone, resources, zones
from numaware.diagnose.explanation import Explanation, Placement
from numaware.diagnose.wording import amount_of, node_list, quantity_of
from numaware.machine.drawing.lines import Line, Span, wrap
from numaware.machine.words import printable
from numaware.twin.node import Node

_BAR = 32
_MARGIN = 11
_HELD, _SYSTEM, _NEW, _FREE = "■", "▨", "◆", "□"


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
        for text in wrap(f"⚠ {warning}", room, 2):
            yield (Span(text, "warning"),)


def _verdict(explanation: Explanation, room: int) -> Iterator[Line]:
    pod = printable(f"{explanation.pod.namespace}/{explanation.pod.name}")
    name = printable(explanation.name)
    if explanation.admitted:
        yield (Span("✓ ", "bold"), Span(f"{pod} would be admitted by {name}", "bold"))
    else:
        yield (
            Span("✗ ", "warning"),
            Span(f"{pod} would be refused by {name}: {explanation.reason}", "warning"),
        )
        for text in wrap(f"the kubelet says: {explanation.message}", room - 2):
            yield (Span(f"  {text}", "quiet"),)
    for text in wrap(_kubelet(explanation.node), room - 2):
        yield (Span(f"  {text}", "quiet"),)


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
    return printable(" · ".join(parts), 400)


def _picture(explanation: Explanation, room: int) -> Iterator[Line]:
    """One row per NUMA node: its CPUs as a bar, then what is free of everything, before the pod comes."""
    before, after = explanation.node, explanation.after
    everything = {resource: zones(before, resource) for resource in resources(before)}
    table = {resource: found for resource, found in everything.items() if any(zone.total for zone in found)}
    if not table:
        return
    yield ()
    mine = {zone.numa: zone.free for zone in zones(after, "cpu")} if explanation.admitted else {}
    wide = max((zone.total for zone in table.get("cpu", ())), default=0)
    for index, number in enumerate(before.kubelet.layout.ids):
        cells = []
        if "cpu" in table:
            zone = table["cpu"][index]
            cells.append(_bar(zone, zone.free - mine.get(zone.numa, zone.free), wide))
        for resource, found in table.items():
            cells.append(
                _left(resource, found[index]).ljust(max(len(_left(resource, zone)) for zone in found))
            )
        for row, text in enumerate(_rows(cells, room - _MARGIN)):
            head = f"  NUMA {number}" if row == 0 else ""
            yield (Span(head.ljust(_MARGIN), f"numa-{number % 8}"), Span(text))
    if "cpu" in table:
        used = f"{_NEW} this pod  " if mine else ""
        legend = f"CPUs: {_HELD} held  {_SYSTEM} reserved  {used}{_FREE} free"
        yield (Span(" " * _MARGIN + legend, "quiet"),)


def _rows(cells: list[str], room: int) -> Iterator[str]:
    """The cells side by side, on as many rows as they need."""
    row = ""
    for cell in cells:
        if row and len(row) + 2 + len(cell.rstrip()) > room:
            yield row
            row = ""
        row += f"  {cell}" if row else cell
    yield row


def _left(resource: str, zone: Zone) -> str:
    name = "CPUs" if resource == "cpu" else resource
    return f"{quantity_of(resource, zone.free)} of {quantity_of(resource, zone.total)} {name} free"


def _bar(zone: Zone, new: int, wide: int) -> str:
    """CPUs of one node to scale; a part that is not empty shows at least one mark."""
    cells = min(_BAR, wide)
    length = max(1, zone.total * cells // wide) if zone.total else 0
    held = max(0, zone.total - zone.free - zone.reserved)
    marks = ""
    for amount, glyph in ((zone.reserved, _SYSTEM), (held, _HELD), (new, _NEW)):
        marks += glyph * (max(1, amount * length // zone.total) if amount else 0)
    return (marks[:length] + _FREE * (length - len(marks))).ljust(cells)


def _placements(explanation: Explanation, room: int) -> Iterator[Line]:
    yield ()
    width = max(len(placed.container) for placed in explanation.placements)
    for placed in explanation.placements:
        texts = wrap(" · ".join(_parts(explanation.node, placed)), room - width - 4)
        for number, text in enumerate(texts):
            name = printable(placed.container) if number == 0 else ""
            yield (Span(f"  {name.ljust(width)}  ", "bold"), Span(text))


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
        yield f"CPUs {placed.cpus} on {node_list(nodes)}"
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
    if not explanation.why:
        return
    yield ()
    yield (Span("why", "bold"),)
    width = min(24, max(len(cause.resource) for cause in explanation.why))
    for cause in explanation.why:
        for number, text in enumerate(wrap(printable(cause.text, 1000), room - width - 4)):
            head = cause.resource if number == 0 else ""
            yield (Span(f"  {head.ljust(width)}  "), Span(text))
        for blocker in cause.blocked_by:
            for text in wrap(printable(blocker), room - width - 6):
                yield (Span(f"  {'':{width}}    {text}", "quiet"),)


def _fixes(explanation: Explanation, room: int) -> Iterator[Line]:
    yield ()
    if not explanation.changes:
        yield (
            Span("no single change to request, policy, options or running pods would admit it here", "bold"),
        )
        return
    yield (Span("any one of these would admit it (each was tried on the twin)", "bold"),)
    for number, change in enumerate(explanation.changes, 1):
        for index, text in enumerate(wrap(printable(change.text, 1000), room - 6)):
            yield (Span(f"  {number if index == 0 else ' ':>2}  {text}"),)
