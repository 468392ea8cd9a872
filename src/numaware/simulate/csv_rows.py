"""Traces and node lists in CSV: rows with their place in the file, and numbers within bounds."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping

from numaware.errors import InputError
from numaware.machine.words import printable

MOST_BYTES = 64 << 20
_MOST_ROWS = 200_000


class Row:
    """One line of a CSV file with its place in it."""

    def __init__(self, fields: Mapping[str, str], where: str) -> None:
        self.fields = fields
        self.where = where

    def text(self, column: str) -> str:
        return self.fields.get(column) or ""

    def number(self, column: str, most: int) -> int:
        text = self.text(column)
        # Some exports write whole numbers with a fraction of zero.
        whole, _, fraction = text.partition(".")
        if not whole.isascii() or not whole.isdecimal() or fraction.strip("0"):
            raise InputError(self.where, f"{column} is {printable(text, 40)!r}, not a whole number")
        if len(whole) > 15 or int(whole) > most:
            raise InputError(self.where, f"{column} is {printable(whole, 40)}, more than {most}")
        return int(whole)

    def thousandths(self, column: str, most: int) -> int:
        """A number with a fraction, cut off after the third digit."""
        whole, _, fraction = self.text(column).partition(".")
        if not (whole + fraction).isascii() or not whole.isdecimal() or not (fraction or "0").isdecimal():
            raise InputError(self.where, f"{column} is {printable(self.text(column), 40)!r}, not a number")
        if len(whole) > 15 or int(whole) > most:
            raise InputError(self.where, f"{column} is {printable(whole, 40)}, more than {most}")
        return 1000 * int(whole) + int(fraction[:3].ljust(3, "0"))


def rows(data: bytes, source: str, columns: tuple[str, ...]) -> Iterator[Row]:
    """The rows of a file that has these columns among others; anything else is an `InputError` with its line."""
    if len(data) > MOST_BYTES:
        raise InputError(source, f"larger than {MOST_BYTES >> 20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{source}:{line}", "is not UTF-8 text") from None
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            hint = f"expected {', '.join(columns)}"
            raise InputError(f"{source}:1", f"has no column {missing[0]}", hint=hint)
        for count, fields in enumerate(reader, 1):
            where = f"{source}:{reader.line_num}"
            if None in fields or None in fields.values():
                raise InputError(
                    where, f"has not the {len(reader.fieldnames or ())} fields of the first line"
                )
            if count > _MOST_ROWS:
                raise InputError(where, f"more than {_MOST_ROWS} rows")
            yield Row(fields, where)
    except csv.Error as error:
        raise InputError(f"{source}:{reader.line_num}", f"not CSV: {error}") from None
