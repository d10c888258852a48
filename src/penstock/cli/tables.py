"""Tables as text."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.streams.literals import format_array


def cells(table: pa.Table) -> Iterator[tuple[str, ...]]:
    """Every row as one-line texts: strings without quotes, dates without the word DATE."""
    for batch in table.to_batches():
        columns = [
            [_plain(text, array.type) for text in format_array(array)] for array in batch.columns
        ]
        yield from zip(*columns, strict=True)


def _plain(text: str, kind: pa.DataType) -> str:
    if text == "NULL":
        return text
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return text.partition(" ")[2].strip("'")
    if pa.types.is_string(kind) and text.startswith("'"):
        return text[1:-1].replace("''", "'")
    return text


def aligned(table: pa.Table) -> list[str]:
    """The lines of a table: numbers aligned right, the rest left.

    >>> aligned(pa.table({"id": [1, 20], "name": ["a", None]}))
    ['id  name', ' 1  a', '20  NULL']
    """
    rows = [tuple(table.column_names), *cells(table)]
    widths = [max(len(row[index]) for row in rows) for index in range(table.num_columns)]
    right = [_is_number(field.type) for field in table.schema]
    lines: list[str] = []
    for row in rows:
        padded = [
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(row, widths, right, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return lines


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))
