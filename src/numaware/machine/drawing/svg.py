"""The picture as one self-contained SVG: for a page, a ticket, a slide.

It follows the reader's light or dark setting by itself, keeps its text selectable, names nothing outside itself,
and says in its description, for those who listen, what the boxes show. Equal machines give equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

from msgspec import structs

from numaware.machine.cpuset import CpuSet
from numaware.machine.drawing.box import Box, Core, Matrix, Picture
from numaware.machine.drawing.lines import GLUE
from numaware.machine.drawing.picture import core_lines, draw
from numaware.machine.drawing.shapes import (
    BODY,
    LABEL,
    MONO,
    SMALL,
    STRONG,
    TITLE,
    Block,
    Font,
    column,
    escape,
    grid,
    one_line,
    padded,
    paragraph,
    place,
    rect,
    row,
    text,
    text_width,
)
from numaware.machine.drawing.stylesheet import STYLE
from numaware.machine.topology import Machine
from numaware.machine.words import cpu_list

# Up to here every core is drawn; a larger machine is told in words, or nobody could find anything in it.
MAX_CELLS = 512
_PAGE = 1200
_MARGIN, _GAP, _PAD = 16, 12, 10
_CELL, _CELL_GAP = 38, 6
_DEVICE = 150
_MAX_MATRIX = 16


def render(machine: Machine) -> bytes:
    """The machine as an SVG document."""
    cells = len(machine.cpus) <= MAX_CELLS
    picture = draw(machine, cells=cells)
    boxes = picture.boxes if cells else tuple(_without_cores(box) for box in picture.boxes)
    across = _packages_across(boxes)
    room = min(_PAGE - 2 * _MARGIN, max(560, _natural_of(boxes, across)))
    parts = [
        _head(picture, room),
        _boxes(boxes, room, across),
        _unplaced(picture.unplaced, room),
        _matrices(picture, room),
        _legend(boxes),
        paragraph(picture.notes, SMALL, room, "q"),
        _warnings(picture.warnings, room),
    ]
    content = column(parts, _MARGIN)
    width = max(room, content.width) + 2 * _MARGIN
    height = content.height + 2 * _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="numaware" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" aria-label="{escape(_name(picture))}">\n'
        f"<title>{escape(_name(picture))}</title>\n<desc>{escape(_spoken(picture))}</desc>\n"
        f"<style>{STYLE}</style>\n"
        f"{rect((width, height), 'page', radius=0)}{place(content, _MARGIN, _MARGIN)}</svg>\n"
    ).encode()


def _without_cores(box: Box) -> Box:
    return structs.replace(box, cores=(), children=tuple(_without_cores(child) for child in box.children))


def _head(picture: Picture, room: int) -> Block:
    return column(
        [paragraph([picture.title], TITLE, room, "b", 0), paragraph(picture.summary, BODY, room, "q", 0)], 2
    )


# Packages and NUMA nodes


def _nodes(box: Box) -> list[Box]:
    return [child for child in box.children if child.role == "numa"] if box.role == "package" else [box]


def _nodes_across(box: Box) -> int:
    number = len(_nodes(box))
    return number if number < 3 else 2 if number == 4 else -(-number // -(-number // 4))


def _packages_across(boxes: Sequence[Box]) -> int:
    most = max((_nodes_across(box) for box in boxes), default=1)
    fit = max(1, 4 // most)
    rows = -(-len(boxes) // fit)
    return -(-len(boxes) // rows) if boxes else 1


def _natural_of(boxes: Sequence[Box], across: int) -> int:
    """The width at which nothing has to be folded to a new line."""
    widest = max((_natural_package(box) for box in boxes), default=0)
    return across * widest + (across - 1) * _GAP


def _natural_package(box: Box) -> int:
    nodes = _nodes(box)
    own = max(_natural_node(node) for node in nodes)
    across = _nodes_across(box)
    return across * own + (across - 1) * _GAP + (2 * _PAD if box.role == "package" else 0)


def _natural_node(box: Box) -> int:
    cores = [len(child.cores) for child in box.children if child.role in ("cache", "cores")]
    cells = min(max(cores, default=0), 8) * (_CELL + _CELL_GAP) + 4 * _PAD
    head = text_width(box.title, STRONG) + text_width(box.aside, BODY) + 4 * _PAD
    devices = [child for child in box.children if child.role in ("device", "switch")]
    hung = min(max((len(d.children) or 1 for d in devices), default=0), 2) * (_DEVICE + _GAP) + 4 * _PAD
    worded = 300 if box.children and not cells else 0
    return max(220, cells, head, hung if devices else 0, worded)


def _boxes(boxes: Sequence[Box], room: int, across: int) -> Block:
    share = (room - (across - 1) * _GAP) // across
    rows = []
    for start in range(0, len(boxes), across):
        some = boxes[start : start + across]
        heights = [
            max(column) for column in zip_longest(*(_heights(box, share) for box in some), fillvalue=0)
        ]
        rows.append(row([_outer(box, share, heights) for box in some], _GAP))
    return column(rows, _GAP)


def _heights(box: Box, room: int) -> list[int]:
    """The height of each row of nodes in a package: packages that stand side by side share them, and so line up."""
    across, share = _node_room(box, room)
    nodes = _nodes(box)
    heights = [_node(node, share, 0, box.copies > 1).height for node in nodes]
    return [max(heights[start : start + across]) for start in range(0, len(nodes), across)]


def _node_room(box: Box, room: int) -> tuple[int, int]:
    across = _nodes_across(box)
    inner = room - 2 * _PAD if box.role == "package" else room
    return across, (inner - (across - 1) * _GAP) // across


def _outer(box: Box, room: int, heights: Sequence[int]) -> Block:
    if box.role != "package":
        return _node(box, room, sum(heights) + _GAP * (len(heights) - 1))
    inner = room - 2 * _PAD
    across, share = _node_room(box, room)
    head = _ends(one_line(box.title, SMALL, inner, "q"), box.aside, SMALL, inner, "q")
    nodes = _nodes(box)
    rows = [
        row([_node(node, share, height, box.copies > 1) for node in nodes[index * across :][:across]], _GAP)
        for index, height in enumerate(heights)
    ]
    content = column([head, column(rows, _GAP)], 4)
    height = head.height + 4 + sum(heights) + _GAP * (len(heights) - 1) + 2 * _PAD
    return padded(content, _PAD, (room, height), "package")


def _ends(left: Block, right: str, font: Font, room: int, name: str = "") -> Block:
    """One at the left end of the room, and a text at the right end, if both fit."""
    if not right or left.width + text_width(right, font) + 8 > room:
        return left
    body = left.body + text(right, font, (room, max(0, left.height - font.line)), name, "end")
    return Block(room, max(left.height, font.line), body)


def _node(box: Box, room: int, height: int, folded: bool = False) -> Block:
    inner = room - 2 * _PAD
    hue = "" if box.hue is None else f"hue{box.hue % 8}"
    head = _ends(one_line(box.title, STRONG, inner, f"ink {hue}"), box.aside, BODY, inner)
    folded = folded or box.copies > 1
    groups = [child for child in box.children if child.role in ("cache", "cores")]
    cpus = CpuSet(number for group in groups for core in group.cores for number in core.threads)
    shown = [f"CPUs{GLUE}{cpu_list(cpus)}"] if _draws_cells(groups, folded=folded) else []
    parts = [head, paragraph([*shown, *box.facts], SMALL, inner, "q")]
    parts.append(_groups(groups, inner, folded=folded))
    parts.append(_devices([child for child in box.children if child.role in ("switch", "device")], inner))
    content = column(parts, 8)
    return padded(content, _PAD, (room, max(height, content.height + 2 * _PAD)), f"node {hue}".strip())


# Caches and cores


def _draws_cells(boxes: Sequence[Box], *, folded: bool) -> bool:
    """Whether each core is drawn: not where one box stands for many."""
    return not folded and any(box.cores for box in boxes) and all(box.copies == 1 for box in boxes)


def _groups(boxes: Sequence[Box], room: int, *, folded: bool) -> Block:
    """Caches below one another, or beside one another where they are narrow (four cores each)."""
    cells = _draws_cells(boxes, folded=folded)
    cores = max((len(box.cores) for box in boxes), default=0)
    least = cores * (_CELL + _CELL_GAP) + 2 * _PAD if cells else 240
    across = max(1, min(len(boxes), (room + 8) // (max(least, 130) + 8)))
    across = -(-len(boxes) // max(1, -(-len(boxes) // across)))
    return _level(boxes, across, room, lambda box, share, height: _group(box, share, height, cells=cells))


def _group(box: Box, room: int, height: int, *, cells: bool) -> Block:
    inner = room - 2 * 8
    parts = [one_line(box.title, SMALL, inner, "b")] if box.title else []
    if cells:
        kinds = [words for words, _ in core_lines(box.cores)]
        if (
            parts
            and len(kinds) == 1
            and (beside := _ends(parts[0], kinds[0], LABEL, inner, "q")) is not parts[0]
        ):
            parts = [beside]
        else:
            parts.append(paragraph(kinds, LABEL, inner, "q"))
        across = _even(len(box.cores), max(1, (inner + _CELL_GAP) // (_CELL + _CELL_GAP)))
        wide = min((inner + _CELL_GAP) // across - _CELL_GAP, 56)
        drawn = grid([_core(core, wide) for core in box.cores], across, _CELL_GAP)
    else:
        parts.append(paragraph(box.sentences, LABEL, inner, "q"))
        drawn = Block(0, 0)
    parts.append(paragraph(box.facts, LABEL, inner, "q"))
    content = column([column(parts, 1), drawn], 6)
    return padded(content, 8, (room, max(height, content.height + 16)), "cache", 4)


def _even(number: int, most: int) -> int:
    """How many in a row: as many as fit, or somewhat fewer if then all rows are full."""
    if number <= most:
        return max(number, min(most, 4))
    return next((across for across in range(most, most // 2, -1) if number % across == 0), most)


def _core(core: Core, wide: int, *, numbered: bool = True) -> Block:
    """A core with its threads one above the other; what is odd about it is a shape, not a colour."""
    height = len(core.threads) * 13 + 5
    body = rect(
        (wide, height), "core odd" if core.forbidden or core.offline == core.threads else "core", radius=3
    )
    if core.isolated:
        body += rect((wide - 5, height - 5), "edge", (2, 2), 2)
    for index, number in enumerate(core.threads):
        y = 3 + index * 13
        if numbered:
            body += text(
                str(number), MONO, (wide // 2, y - 1), "q" if number in core.offline else "", "middle"
            )
        if number in core.offline:
            body += f'<path class="cross" d="M6 {y}L{wide - 6} {y + 12}M{wide - 6} {y}L6 {y + 12}"/>'
    if core.forbidden:
        body += f'<path class="cross" d="M3 {height - 3}L{wide - 3} 3"/>'
    if core.kind == "E":
        body += f'<circle class="small" cx="{wide - 5}" cy="5" r="2"/>'
    return Block(wide, height, body)


def _level(
    boxes: Sequence[Box], across: int, room: int, block: Callable[[Box, int, int], Block], widest: int = _PAGE
) -> Block:
    """Boxes in rows; those of a row are equally wide and high."""
    share = min((room - (across - 1) * 8) // max(1, across), widest)
    blocks = []
    for start in range(0, len(boxes), max(1, across)):
        some = boxes[start : start + across]
        height = max(block(box, share, 0).height for box in some)
        blocks += [block(box, share, height) for box in some]
    return grid(blocks, max(1, across), 8)


def _legend(boxes: Sequence[Box]) -> Block:
    """What the shapes of cores mean, for those that occur."""
    cores = [core for box in boxes for core in box.all_cores()]
    one = CpuSet([0])
    samples = (
        ("E-core", Core(one, "E"), any(core.kind == "E" for core in cores)),
        ("isolated", Core(one, isolated=one), any(core.isolated for core in cores)),
        ("offline", Core(one, offline=one), any(core.offline for core in cores)),
        ("not allowed", Core(one, forbidden=one), any(core.forbidden for core in cores)),
    )
    return row(
        [
            row([_core(sample, 28, numbered=False), one_line(word, SMALL, 120, "q")], 6)
            for word, sample, occurs in samples
            if occurs
        ],
        _MARGIN,
    )


# Devices


def _devices(boxes: Sequence[Box], room: int) -> Block:
    switches = [_switch(box, room) for box in boxes if box.role == "switch"]
    single = [box for box in boxes if box.role == "device"]
    return column([*switches, _device_grid(single, room)], 8)


def _switch(box: Box, room: int) -> Block:
    inner = room - 16
    title = f"{box.title} {box.aside}".strip()
    content = column([one_line(title, LABEL, inner, "q"), _device_grid(box.children, inner)], 3)
    return padded(content, 8, (room, content.height + 16), "switch", 4)


def _device_grid(boxes: Sequence[Box], room: int) -> Block:
    across = min(max(1, (room + 8) // (_DEVICE + 8)), max(1, len(boxes)))
    return _level(boxes, across, room, _device, 2 * _DEVICE)


def _device(box: Box, room: int, height: int) -> Block:
    inner = room - 16
    parts = [
        one_line(box.title, SMALL, inner, "b"),
        paragraph([" · ".join(box.facts)] if box.facts else [], LABEL, inner, "q", 0),
        paragraph([box.aside] if box.aside else [], MONO, inner, "q", 0),
    ]
    content = column(parts, 0)
    hue = "" if box.hue is None else f"hue{box.hue % 8}"
    framed = padded(content, 8, (room, max(height, content.height + 14)), "device", 4)
    bar = rect((4, framed.height), f"bar {hue}", radius=2) if hue else ""
    return Block(framed.width, framed.height, framed.body + bar)


def _unplaced(boxes: Sequence[Box], room: int) -> Block:
    if not boxes:
        return Block(0, 0)
    content = column([one_line("NUMA node not known", STRONG, room), _devices(boxes, room - 2 * _PAD)], 6)
    return padded(content, _PAD, (room, content.height + 2 * _PAD), "unknown")


# Matrices and words


def _matrices(picture: Picture, room: int) -> Block:
    blocks = [
        _matrix(_first_that_fits(forms), room - 2 * _PAD)
        for forms in (picture.distances, picture.links)
        if forms
    ]
    if not blocks:
        return Block(0, 0)
    fits = sum(block.width for block in blocks) + 3 * _MARGIN + 2 * _PAD <= room
    content = row(blocks, 3 * _MARGIN) if fits else column(blocks, _MARGIN)
    return padded(content, _PAD, (max(room, content.width + 2 * _PAD), content.height + 2 * _PAD), "package")


def _first_that_fits(forms: Sequence[Matrix]) -> Matrix:
    return next((form for form in forms if len(form.columns) <= _MAX_MATRIX), forms[-1])


def _matrix(matrix: Matrix, room: int) -> Block:
    label = min(max(text_width(name, SMALL) for name, _ in matrix.rows), room // 3) + 10
    texts = [*matrix.columns, *(cell.text for _, cells in matrix.rows for cell in cells)]
    wide = max(34, max(text_width(line, SMALL) for line in texts) + 8)
    high = 24
    body = one_line(matrix.title, STRONG, room).body
    y = STRONG.line + 4
    for index, name in enumerate(matrix.columns):
        body += text(name, LABEL, (label + index * wide + wide // 2, y), "q", "middle")
    y += LABEL.line + 2
    for name, cells in matrix.rows:
        body += place(one_line(name, SMALL, label), 0, y + 3)
        for index, cell in enumerate(cells):
            x = label + index * wide
            ink = "q" if cell.heat is None else "hi" if cell.heat > 2 else ""
            if cell.heat is not None:
                body += rect((wide - 2, high - 2), f"heat{cell.heat}", (x, y), 2)
            body += text(cell.text, SMALL, (x + wide // 2 - 1, y + 2), ink, "middle")
        y += high
    width = label + wide * len(matrix.columns)
    caption = paragraph([matrix.caption] if matrix.caption else [], SMALL, min(room, max(width, 320)), "q", 0)
    return Block(max(width, caption.width), y + 4 + caption.height, body + place(caption, 0, y + 4))


def _warnings(warnings: Sequence[str], room: int) -> Block:
    if not warnings:
        return Block(0, 0)
    content = paragraph([f"⚠ {warning}" for warning in warnings], SMALL, room - 2 * _PAD, "warn")
    return padded(content, _PAD, (room, content.height + 2 * _PAD), "warning")


def _name(picture: Picture) -> str:
    return ": ".join((picture.title, *picture.summary[:1]))


def _spoken(picture: Picture) -> str:
    """The picture read aloud: one sentence for each box, from the outside in."""
    sentences = [_sentence(box) for box in picture.boxes]
    sentences += [f"NUMA node not known: {_sentence(box)}" for box in picture.unplaced]
    sentences += [f"{note}." for note in (*picture.notes, *picture.warnings)]
    return " ".join(sentences).replace(GLUE, " ")


def _sentence(box: Box) -> str:
    said = ", ".join(part for part in (box.title, box.aside, *box.sentences, *box.facts) if part)
    return " ".join((f"{said}." if said else "", *(_sentence(child) for child in box.children))).strip()
