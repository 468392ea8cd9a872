"""The picture as lines of text that fit a terminal: boxes of line characters, laid out anew for every width."""

from __future__ import annotations

from collections.abc import Sequence

from numaware.machine.drawing.box import Box, Core, Matrix, Picture
from numaware.machine.drawing.lines import (
    DASHED,
    HEAVY,
    LIGHT,
    ROUND,
    Border,
    Line,
    Span,
    beside,
    frame,
    width,
    wrap,
)

NARROWEST = 40
# A wider picture is harder to read, not easier.
WIDEST = 140
_NODE_ROOM = 33
_GROUP_ROOM = 26
# More cores than this are put into words, not drawn.
_STRIP = 64
_GLYPHS = {"offline": "□", "not allowed": "▨", "isolated": "◆"}
_BORDERS: dict[str, Border] = {"package": ROUND, "numa": HEAVY, "cache": LIGHT, "switch": DASHED}


def render(picture: Picture, room: int) -> list[Line]:
    """The whole picture, no line wider than `room` (but at least 40 columns)."""
    room = max(NARROWEST, min(room, WIDEST))
    blocks: list[list[Line]] = [
        _head(picture, room),
        _grid(picture.boxes, room, _columns_of_packages(picture.boxes, room), top=True),
        _section("NUMA node not known", _devices(picture.unplaced, room - 2)),
        _first_that_fits(picture.distances, room),
        _first_that_fits(picture.links, room),
        _legend(picture, room),
        [(Span(text),) for note in picture.notes for text in wrap(note, room)],
        [(Span(text, "warning"),) for note in picture.warnings for text in wrap(f"⚠ {note}", room, 2)],
    ]
    lines: list[Line] = []
    for block in blocks:
        if block:
            lines += [*([()] if lines else []), *block]
    return lines


def _head(picture: Picture, room: int) -> list[Line]:
    title: list[Line] = [(Span(text, "bold"),) for text in wrap(picture.title, room)]
    return title + [(Span(text, "quiet"),) for line in picture.summary for text in wrap(line, room)]


def _section(title: str, body: list[Line]) -> list[Line]:
    return [(Span(title, "bold"),), *((Span("  "), *line) for line in body)] if body else []


def _columns_of_packages(boxes: Sequence[Box], room: int) -> int:
    """Packages stand side by side where each keeps room for its nodes; else one below the other."""
    most = max((len([child for child in box.children if child.role == "numa"]) for box in boxes), default=1)
    wanted = min(most, 2) * (_NODE_ROOM + 1) + 3 if most > 1 else _NODE_ROOM + 4
    return max(1, min(len(boxes), (room + 1) // (wanted + 1)))


def _balanced(number: int, columns: int) -> int:
    """As few columns as give the same number of rows, so that no row is left nearly empty."""
    rows = -(-number // columns)
    return -(-number // rows)


def _grid(boxes: Sequence[Box], room: int, columns: int, *, top: bool = False) -> list[Line]:
    """Boxes in rows, those of a row equally high; inside a frame the columns fill it, at the top they are equal."""
    if not boxes:
        return []
    columns = _balanced(len(boxes), columns)
    if top:
        room -= (room - (columns - 1)) % columns
    share, over = divmod(room - (columns - 1), columns)
    rooms = [share + (column < over) for column in range(columns)]
    lines: list[Line] = []
    for start in range(0, len(boxes), columns):
        row = list(zip(boxes[start : start + columns], rooms, strict=False))
        height = max(len(_box(box, own, 0)) for box, own in row)
        lines += beside([_box(box, own, height) for box, own in row], [own for _, own in row])
    return lines


def _box(box: Box, room: int, height: int) -> list[Line]:
    inner = room - 4
    body = _words(box, inner)
    nested = [child for child in box.children if child.role in _BORDERS and child.role != "switch"]
    body += [line for child in box.children if child.role == "cores" for line in _words(child, inner)]
    if nested:
        least = _NODE_ROOM if nested[0].role == "numa" else _GROUP_ROOM
        body += _grid(nested, inner, max(1, min(len(nested), (inner + 1) // (least + 1))))
    body += _devices([child for child in box.children if child.role in ("switch", "device")], inner)
    style = "package" if box.role == "package" else "cache" if box.hue is None else f"numa-{box.hue % 8}"
    return frame(box.title, box.aside, body, room, _BORDERS[box.role], style, height)


def _words(box: Box, room: int) -> list[Line]:
    sentences: list[Line] = [
        (Span(text),) for fact in (*box.sentences, *box.facts) for text in wrap(fact, room, 2)
    ]
    return _strip(box, room) + sentences


def _strip(box: Box, room: int) -> list[Line]:
    """One character for each core of a box that has few; offline, forbidden, isolated and E-cores have their own."""
    if not 0 < len(box.cores) * box.copies <= _STRIP:
        return []
    one = "".join(_glyph(core) for core in box.cores)
    return [(Span(text, "cores"),) for text in wrap(" ".join([one] * box.copies), room)]


def _glyph(core: Core) -> str:
    if core.marks:
        return _GLYPHS[core.marks[0].removeprefix("partly ")]
    return "▪" if core.kind == "E" else "■"


def _legend(picture: Picture, room: int) -> list[Line]:
    """The shapes used for single cores, only if there is one to explain."""
    seen = {_glyph(core) for box in picture.boxes for core in box.all_cores()}
    words = [("■", "core"), ("▪", "E-core"), ("◆", "isolated"), ("□", "offline"), ("▨", "not allowed")]
    if not seen - {"■"}:
        return []
    text = "   ".join(f"{glyph} {word}" for glyph, word in words if glyph in seen)
    return [(Span(part, "quiet"),) for part in wrap(text, room)]


def _devices(boxes: Sequence[Box], room: int) -> list[Line]:
    """Devices as rows, name first; those of one switch in its frame."""
    lines: list[Line] = []
    names = [box.title for box in boxes if box.role == "device"]
    names += [child.title for box in boxes if box.role == "switch" for child in box.children]
    column = min(max((width(name) for name in names), default=0), max(8, room // 3))
    for box in boxes:
        if box.role == "switch":
            inside = [line for child in box.children for line in _device(child, room - 4, column)]
            style = "" if box.hue is None else f"numa-{box.hue % 8}"
            lines += frame(box.title, box.aside, inside, room, DASHED, style)
        else:
            lines += _device(box, room, column)
    return lines


def _device(box: Box, room: int, column: int) -> list[Line]:
    said = " · ".join((*((box.aside,) if box.aside else ()), *box.facts))
    lines: list[Line] = []
    if width(box.title) > column:
        lines += [(Span(text, "device"),) for text in wrap(box.title, room)]
        lines += [(Span(f"  {text}"),) for text in wrap(said, room - 2)]
        return lines
    first, *rest = wrap(said, room - column - 2)
    lines.append((Span(box.title.ljust(column), "device"), Span("  "), Span(first)))
    lines += [(Span(" " * (column + 2)), Span(text)) for text in rest]
    return lines


def _first_that_fits(forms: Sequence[Matrix], room: int) -> list[Line]:
    for form in forms:
        lines = _matrix(form, room, whole=form is not forms[-1])
        if lines:
            return lines
    return []


def _matrix(matrix: Matrix, room: int, *, whole: bool = False) -> list[Line]:
    """A matrix with its numbers on a ground of heat; too many columns continue below, unless it must be `whole`."""
    label = min(max(width(name) for name, _ in matrix.rows), room // 3) + 1
    rooms = [
        max(width(head), *(width(cells[index].text) for _, cells in matrix.rows)) + 2
        for index, head in enumerate(matrix.columns)
    ]
    chunks = _chunks(rooms, room - label)
    if whole and len(chunks) > 1:
        return []
    lines: list[Line] = [(Span(matrix.title, "bold"),)]
    for chunk in chunks:
        heads = "".join(_centred(matrix.columns[index], rooms[index]) for index in chunk)
        lines.append((Span(" " * label), Span(heads, "quiet")))
        for name, cells in matrix.rows:
            *above, last = wrap(name, label - 1, 2)
            lines += [(Span(text),) for text in above]
            values = [
                Span(_centred(cell.text, rooms[index]), "" if cell.heat is None else f"heat-{cell.heat}")
                for index, cell in ((index, cells[index]) for index in chunk)
            ]
            lines.append((Span(last.ljust(label)), *values))
    return [*lines, *((Span(text, "quiet"),) for text in wrap(matrix.caption, room))]


def _chunks(rooms: Sequence[int], room: int) -> list[list[int]]:
    """Columns by number, as many together as fit."""
    chunks: list[list[int]] = [[]]
    for index, own in enumerate(rooms):
        if chunks[-1] and sum(rooms[other] for other in chunks[-1]) + own > room:
            chunks.append([])
        chunks[-1].append(index)
    return chunks


def _centred(text: str, room: int) -> str:
    left = (room - width(text) + 1) // 2
    return " " * left + text + " " * (room - width(text) - left)
