"""The many forms in which `lscpu` prints, brought to one: fields of the summary, and tables of one row per CPU.

The summary is `Name: value` lines (flat in old versions, indented under headings in new ones) or JSON with
children; a table is the columns of `-e` and `-C`, the comma-separated lines of `-p`, or their JSON. A file
may hold several of them one after another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from numaware.errors import InputError
from numaware.machine.textfile import read_text

# A cell of a table by its column's name in capitals; blank cells are left out.
Row = dict[str, str]

# Mails and scripts quote outputs; the header of `-p` is marked with a # of its own.
_QUOTES = "># \t"
_FIELD = re.compile(r"([A-Za-z][^:]{0,60}?)\s*:(?:\s+(\S.*?))?\s*")
_CPU_COLUMNS = frozenset(
    {"CPU", "CORE", "SOCKET", "CLUSTER", "NODE", "BOOK", "DRAWER", "ADDRESS", "CONFIGURED", "ONLINE", "CACHE"}
    | {"POLARIZATION", "MHZ", "SCALMHZ%", "MAXMHZ", "MINMHZ", "BOGOMIPS", "MODELNAME"}
)
_CACHE_NAMES = re.compile(r"L\d[DI]?(?::L\d[DI]?)*", re.ASCII)


class Output(msgspec.Struct, frozen=True):
    """What a file holds: (name, value) fields in order, CPU tables in order, and the rows of cache tables."""

    fields: tuple[tuple[str, str], ...] = ()
    cpu_tables: tuple[tuple[Row, ...], ...] = ()
    cache_rows: tuple[Row, ...] = ()


def parse(data: bytes, source: str) -> Output:
    """The fields and tables of any `lscpu` output; lines that are neither are left out."""
    text = read_text(data, source)
    if text.lstrip().startswith("{"):
        return _parse_json(text, source)
    fields: list[tuple[str, str]] = []
    tables: list[list[Row]] = []
    columns: list[str] = []
    separator: str | None = None
    for written in text.splitlines():
        line = written.lstrip(_QUOTES)
        if (header := _header(line)) is not None:
            columns, separator = header
            tables.append([])
        elif columns and (row := _row(line, columns, separator)):
            tables[-1].append(row)
        elif match := _FIELD.fullmatch(line):
            fields.append((match[1], match[2] or ""))
            columns = []
    return _output(fields, tables)


def _output(fields: Sequence[tuple[str, str]], tables: Sequence[Sequence[Row]]) -> Output:
    return Output(
        tuple(fields),
        tuple(tuple(row for row in table if "CPU" in row) for table in tables if table and "CPU" in table[0]),
        tuple(row for table in tables for row in table if "NAME" in row and "CPU" not in row),
    )


def _header(line: str) -> tuple[list[str], str | None] | None:
    """The columns that a line announces, in capitals, and what separates the cells below it (None: blanks)."""
    separator = "," if "," in line else None
    columns = [name.strip().upper() for name in line.split(separator)]
    if "CPU" in columns and all(
        not name or name in _CPU_COLUMNS or _CACHE_NAMES.fullmatch(name) for name in columns
    ):
        return columns, separator
    if columns[:1] == ["NAME"] and "ONE-SIZE" in columns:
        return columns, None
    return None


def _row(line: str, columns: Sequence[str], separator: str | None) -> Row | None:
    """The cells of a table line; None for a line that is none."""
    cells = [cell.strip() for cell in line.split(separator)]
    row = _cells(columns, cells)
    if "CPU" in columns:
        return row if row.get("CPU", "").isdecimal() else None
    return row if _CACHE_NAMES.fullmatch(row.get("NAME", "").upper()) else None


def _cells(columns: Sequence[str], cells: Sequence[str]) -> Row:
    """Cells by column; one that holds several caches (`L1d:L1i:L2`) is taken apart."""
    row: Row = {}
    for column, cell in zip(columns, cells, strict=False):
        names = column.split(":")
        parts = cell.split(":") if len(names) > 1 else [cell]
        row.update((name, part) for name, part in zip(names, parts, strict=False) if part not in {"", "-"})
        if column == "MODELNAME":  # it holds blanks, so that nothing to its right can be told apart
            break
    return row


class _Field(msgspec.Struct):
    field: str
    data: str | None = None
    children: list[_Field] | None = None


class _Document(msgspec.Struct):
    lscpu: list[_Field] = []
    cpus: list[dict[str, Any]] = []
    caches: list[dict[str, Any]] = []


def _parse_json(text: str, source: str) -> Output:
    try:
        document = msgspec.json.decode(text, type=_Document)
        fields = list(_flat(document.lscpu))
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise InputError(source, f"not the JSON that lscpu prints: {error}") from None
    tables = [
        [_cells([name.upper() for name in row], [_cell(value) for value in row.values()]) for row in rows]
        for rows in (document.cpus, document.caches)
    ]
    return _output(fields, tables)


def _flat(fields: Sequence[_Field]) -> Iterator[tuple[str, str]]:
    for field in fields:
        yield field.field.strip().removesuffix(":"), (field.data or "").strip()
        yield from _flat(field.children or ())


def _cell(value: object) -> str:
    """A JSON value as the table prints it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value).strip() if isinstance(value, int | str) else ""
