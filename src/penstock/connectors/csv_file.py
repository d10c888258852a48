"""CSV files with a header. An empty field is NULL, a quoted empty field is the empty string.

Arrow's CSV reader parses the records, and fields are converted here: a field that does not fit
makes a dead letter of its record and leaves the rest of the file alone.

Arrow's reader is protected from three kinds of input. A quote that is never closed turns the rest
of the file into one value, and the reader does not report it. The reader refuses a file with a
record longer than two of its blocks. It refuses a file in which a record that is not UTF-8 has the
wrong number of fields. So :class:`RecordReader` tracks the quotes, hands over whole records, and
replaces every byte that is not UTF-8 by a stand-in character (:func:`decode_stand_ins` restores the
byte).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from penstock.errors import InputError
from penstock.streams.convert import SourceEvent, convert_columns, cut_out, match_columns
from penstock.streams.events import Malformed, Tuples
from penstock.streams.literals import (
    format_array,
    format_value,
    moment_to_date,
    moment_to_timestamp,
    number_to_physical,
    physical_array,
    read_number,
)
from penstock.streams.schema import Stream, type_name
from penstock.tuning import TUNING

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
HEXADECIMAL = re.compile("0[xX][0-9a-fA-F]{1,16}")
NOT_FINITE = re.compile("[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
PLAIN_DECIMAL = r"^-?0{{0,20}}[0-9]{{0,{}}}(\.[0-9]{{1,38}})?$"
"""Decimals that Arrow casts correctly; the field is the number of digits before the point. Given
more digits or an exponent, Arrow returns a wrong number or reads out of bounds.
"""
TRUE_WORDS = frozenset({"true", "t", "yes", "y", "1"})
FALSE_WORDS = frozenset({"false", "f", "no", "n", "0"})
QUOTE = ord('"')
NEWLINE = ord("\n")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
ENDS_OF_FIELDS = b",\r\n"
# U+10FF80 to U+10FFFF, all of them private use, stand for the bytes 0x80 to 0xFF.
STAND_INS = re.compile("[\U0010ff80-\U0010ffff]")
_ENCODED_STAND_IN = re.compile(rb"\xf4\x8f[\xbe\xbf][\x80-\xbf]")
_STAND_IN_START = b"\xf4\x8f"
_ESCAPED = re.compile("[\udc80-\udcff]")


class _InvalidRows:
    """Collects the records with too few or too many fields."""

    def __init__(self) -> None:
        self.found: list[Any] = []

    def __call__(self, row: Any) -> Literal["skip", "error"]:
        self.found.append(row)
        return "skip"


@contextmanager
def _open(
    path: Path, types: dict[str, pa.DataType], invalid: _InvalidRows
) -> Iterator[tuple[RecordReader, Any]]:
    source: Any = pa.input_stream(str(path), compression="detect")
    records = RecordReader(path, source)
    try:
        with _reader(records, types, invalid, TUNING.csv_block) as reader:
            try:
                yield records, reader
            finally:
                _finish(records, reader)
    except pa.ArrowInvalid:
        # The cause may be a quote that is not closed, which makes the value too long for Arrow.
        records.read_to_end(TUNING.csv_block)
        raise


def _finish(records: RecordReader, reader: Any) -> None:
    """Let the reader's thread end when the rest of the file is not read.

    The thread reads ahead and calls Python: if the interpreter exited meanwhile, the process would
    abort.
    """
    records.stop()
    with suppress(pa.ArrowException):
        for _ in reader:
            pass


def _reader(
    file: Any, types: dict[str, pa.DataType] | None, invalid: _InvalidRows, block: int
) -> Any:
    return pacsv.open_csv(
        file,
        # Invalid rows have row numbers in single-threaded mode only.
        read_options=pacsv.ReadOptions(use_threads=False, block_size=block),
        parse_options=pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=invalid),
        convert_options=pacsv.ConvertOptions(
            column_types=types,
            include_columns=list(types) if types else None,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def schema(path: Path) -> pa.Schema:
    """The columns of the header, with types inferred from the file's first block."""
    return pa.schema([pa.field(f.name, _type_for(f.type)) for f in _inferred(path)])


def _type_for(inferred: pa.DataType) -> pa.DataType:
    """The column type for an inferred type. Times of day are strings: no type has them."""
    none = pa.types.is_null(inferred) or pa.types.is_time(inferred)
    return pa.string() if none else inferred


def type_of_texts(texts: Iterable[str]) -> pa.DataType:
    """The type that a CSV column with these values would have."""
    lines = ['"' + text.replace('"', '""') + '"' for text in texts]
    data = "\n".join(["x", *lines, ""]).encode()
    with _reader(pa.BufferReader(data), None, _InvalidRows(), len(data) + 1) as reader:
        return _type_for(reader.schema.field(0).type)


def _inferred(path: Path) -> pa.Schema:
    """The columns as Arrow infers them from the first block; the rest is not parsed."""
    source: Any = pa.input_stream(str(path), compression="detect")
    records = RecordReader(path, source)
    try:
        head = records.read(TUNING.csv_block) + records.read(TUNING.csv_block)
        # From memory: a reader on the file would read ahead in a thread.
        block = max(TUNING.csv_block, len(head) + 1)
        with _reader(pa.BufferReader(head), None, _InvalidRows(), block) as reader:
            found: pa.Schema = reader.schema
    except pa.ArrowInvalid:
        records.read_to_end(TUNING.csv_block)  # as in _open
        raise
    finally:
        records.close()
    if any(map(STAND_INS.search, found.names)):
        raise InputError(
            f"the header of {path} is not UTF-8", "Write the file in UTF-8, its header at least."
        )
    return found


def read(
    path: Path, stream: Stream, batch_rows: int, declared: bool
) -> Iterator[tuple[int, SourceEvent]]:
    """Yield the file's events, each with the row at which it begins (from 1, after the header)."""
    del batch_rows  # pyarrow cuts CSV by bytes
    names = match_columns(stream, _inferred(path).names, str(path), extra=declared)
    invalid = _InvalidRows()
    row, reported = 1, 0
    with _open(path, dict.fromkeys(names, pa.binary()), invalid) as (records, reader):
        for batch in reader:
            start = 0
            if records.has_stand_ins:
                arrays = [_decode_fields(array) for array in batch.columns]
                batch = pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
            # Arrow reports an invalid row before it returns the rows after it.
            while reported < len(invalid.found):
                before = invalid.found[reported].number - 1 - row
                if before > batch.num_rows - start:
                    break
                yield from _numbered(row, _events(stream, batch.slice(start, before)))
                start, row = start + before, row + before
                yield row, _malformed(stream, invalid.found[reported])
                row, reported = row + 1, reported + 1
            yield from _numbered(row, _events(stream, batch.slice(start)))
            row += batch.num_rows - start
    for record in invalid.found[reported:]:
        yield record.number - 1, _malformed(stream, record)


def _numbered(row: int, events: list[SourceEvent]) -> Iterator[tuple[int, SourceEvent]]:
    for event in events:
        yield row, event
        row += len(event) if isinstance(event, Tuples) else 1


def _malformed(stream: Stream, record: Any) -> Malformed:
    text = _shown(decode_stand_ins(str(record.text).encode()))
    reason = f"the record has {record.actual_columns} fields, not {record.expected_columns}"
    return Malformed(stream.name, text, reason)


def _decode_fields(array: Any) -> Any:
    """The fields with the bytes that the file has."""
    return pa.array(
        [None if v is None else decode_stand_ins(v) for v in array.to_pylist()], pa.binary()
    )


def _events(stream: Stream, batch: pa.RecordBatch) -> list[SourceEvent]:
    if batch.num_rows == 0:
        return []
    arrays, bad = convert_columns(stream, batch.columns, convert_fields)
    result = pa.RecordBatch.from_arrays(arrays, schema=stream.schema)
    texts = {row: _row_text(batch, result, row) for row in bad}
    return cut_out(stream, result, bad, texts)


def _row_text(fields: pa.RecordBatch, converted: pa.RecordBatch, row: int) -> str:
    cells: list[str] = []
    for raw, array in zip(fields.columns, converted.columns, strict=True):
        fits = array[row].is_valid or not raw[row].is_valid
        cells.append(format_array(array.slice(row, 1))[0] if fits else _shown(raw[row].as_py()))
    return ", ".join(cells)


def _shown(field: Any) -> str:
    try:
        return format_value(field.decode(), pa.string())
    except UnicodeDecodeError:
        return format_value(field, pa.binary())


def convert_fields(array: Any, kind: pa.DataType) -> tuple[pa.Array[Any], dict[int, str]]:
    """Fields as values of ``kind``, and a reason for each that does not fit (and becomes NULL)."""
    if pa.types.is_binary(kind):
        return array, {}
    try:
        text = array.cast(pa.string())
        if _arrow_reads(text, kind):
            result: Any = text if pa.types.is_string(kind) else text.cast(kind)
            if not pa.types.is_floating(kind) or not pc.any(pc.is_inf(result)).as_py():
                return result, {}
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass  # Arrow cannot read some field, or it does not fit
    values: list[object] = []
    reasons: dict[int, str] = {}
    for index, field in enumerate(array.to_pylist()):
        try:
            values.append(None if field is None else _read_field(field, kind))
        except ValueError as reason:
            values.append(None)
            reasons[index] = str(reason)
    return physical_array(values, kind), reasons


def _arrow_reads(text: Any, kind: pa.DataType) -> bool:
    """Whether Arrow's cast of these texts gives the same as :func:`_read_field`."""
    if pa.types.is_decimal(kind):
        pattern = PLAIN_DECIMAL.format(38 - kind.scale)
        return pc.all(pc.match_substring_regex(text, pattern)).as_py() is not False
    if pa.types.is_integer(kind):  # Arrow reads 0xFF as -1 for an int8
        return not any(pc.any(pc.match_substring(text, mark)).as_py() for mark in "xX")
    if pa.types.is_floating(kind):  # Arrow reads nan(1)
        return not pc.any(pc.match_substring(text, "(")).as_py()
    return True


def _read_field(field: bytes, kind: Any) -> object:
    shown = f"{_shown(field)} does not fit {type_name(kind)}"
    try:
        text = field.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{shown}: it is not UTF-8") from None
    word = text.strip()
    if pa.types.is_string(kind):
        return text
    if pa.types.is_boolean(kind):
        if word.lower() not in TRUE_WORDS | FALSE_WORDS:
            raise ValueError(shown)
        return word.lower() in TRUE_WORDS
    try:
        if pa.types.is_date(kind):
            return moment_to_date(word, shown)
        if pa.types.is_timestamp(kind):
            return moment_to_timestamp(word, kind, shown)
    except ValueError:
        raise ValueError(shown) from None
    if pa.types.is_integer(kind) and HEXADECIMAL.fullmatch(word):
        return number_to_physical(int(word, 16), kind, shown)
    if NUMBER.fullmatch(word):
        return number_to_physical(read_number(word), kind, shown)
    if pa.types.is_floating(kind) and NOT_FINITE.fullmatch(word):
        return float(word)
    raise ValueError(shown)


def encode_stand_ins(text: bytes) -> bytes:
    r"""The text in UTF-8, with a stand-in for each byte that is not UTF-8.

    Stand-ins that the text already has are replaced too, byte by byte.

    >>> decode_stand_ins(encode_stand_ins(b"a\xffb")) == b"a\xffb"
    True
    >>> encode_stand_ins("\u00e4".encode())
    b'\xc3\xa4'
    """
    try:
        text.decode()
        if _STAND_IN_START not in text:
            return text
    except UnicodeDecodeError:
        pass
    decoded = text.decode("utf-8", "surrogateescape")
    decoded = STAND_INS.sub(
        lambda match: match[0].encode().decode("ascii", "surrogateescape"), decoded
    )
    return _ESCAPED.sub(lambda match: chr(ord(match[0]) - 0xDC00 + 0x10FF00), decoded).encode()


def decode_stand_ins(text: bytes) -> bytes:
    """The inverse of :func:`encode_stand_ins`."""
    if _STAND_IN_START not in text:
        return text
    return _ENCODED_STAND_IN.sub(lambda match: bytes((ord(match[0].decode()) & 0xFF,)), text)


class QuoteTracker:
    r"""Tracks whether a quote is open in CSV text that comes in pieces.

    A quote opens a value at the start of a field; elsewhere outside a value it is an ordinary
    character. Inside a value, a doubled quote counts as closing and reopening it.

    >>> quotes = QuoteTracker()
    >>> quotes.take(b'x\n"a""b",5" wide\n"c')
    >>> quotes.opened
    3
    """

    def __init__(self) -> None:
        self.opened: int | None = None
        """The line, from 1, of the open quote, or None."""
        self._line = 1
        self._last: int | None = None
        # The line of the quote that the very last character closed.
        self._closed: int | None = None

    def take(self, piece: bytes) -> None:
        """Track the next piece of the text."""
        if self._last is None:
            piece = piece.removeprefix(BYTE_ORDER_MARK)
        # Few values contain line breaks, so up to the last one nearly all can be checked at once.
        end = piece.rfind(b"\n") + 1
        for part in (piece[:end], piece[end:]):
            if part:
                self._take(part)

    def _take(self, part: bytes) -> None:
        if QUOTE in part:
            text = np.frombuffer(part, np.uint8)
            places = np.flatnonzero(text == QUOTE)
            before = text[places - 1]
            if places[0] == 0:
                before[0] = NEWLINE if self._last is None else self._last
            if self._all_closed(places, before, part):
                self.opened = self._closed = None
            else:
                self._walk(places.tolist(), before.tolist(), part)
        else:
            self._closed = None
        self._line += part.count(b"\n")
        self._last = part[-1]

    def _all_closed(
        self, places: npt.NDArray[np.int64], before: npt.NDArray[np.uint8], part: bytes
    ) -> bool:
        """Whether quotes alternate between opening and closing, and none is open at the end."""
        first = 0 if self.opened is None else 1
        if (len(places) - first) % 2 or part[-1] == QUOTE or self._closed is not None:
            return False
        reopens = np.diff(places, prepend=-2) == 1
        starts = np.isin(before, np.frombuffer(ENDS_OF_FIELDS, np.uint8))
        return bool((starts | reopens)[first::2].all())

    def _walk(self, places: list[int], before: list[int], part: bytes) -> None:
        """Track one quote after the other."""
        closed_at = -1 if self._closed is not None else -2
        line, counted = self._line, 0
        for place, character in zip(places, before, strict=True):
            if self.opened is not None:
                self._closed, self.opened, closed_at = self.opened, None, place
            elif closed_at == place - 1:
                self.opened = self._closed
            elif character in ENDS_OF_FIELDS:
                line, counted = line + part.count(b"\n", counted, place), place
                self.opened = line
        if self.opened is not None or closed_at != len(part) - 1:
            self._closed = None


class RecordReader:
    """Reads whole CSV records from a binary file, as UTF-8; ending inside a quote is an InputError.

    ``has_stand_ins`` says whether bytes that are not UTF-8 were replaced.
    """

    def __init__(self, path: Path, file: Any) -> None:
        self._path = path
        self._file = file
        self._quotes = QuoteTracker()
        self._stopped = False
        self._rest = bytearray()
        self.has_stand_ins = False

    def stop(self) -> None:
        """End the file here, for a reader that reads ahead."""
        self._stopped = True

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()

    def read(self, size: int = -1) -> bytes:
        """Read about ``size`` bytes, up to the end of a record; all bytes if ``size`` is negative.

        Raises InputError at the end of the file if a quote is open.
        """
        if self._stopped:
            return b""
        while True:
            piece: bytes = self._file.read(size if size >= 0 else None)
            end = _end_of_line(piece)
            self._quotes.take(piece[:end])
            cut = len(self._rest) + end if end and self._quotes.opened is None else 0
            self._quotes.take(piece[end:])
            self._rest += piece
            if not piece or size < 0:
                self._check_closed()
                cut = len(self._rest)
            if cut or not piece:
                records = bytes(self._rest[:cut])
                del self._rest[:cut]
                whole = encode_stand_ins(records)
                self.has_stand_ins |= whole is not records
                return whole

    def _check_closed(self) -> None:
        if self._quotes.opened is not None:
            raise InputError(
                f"{self._path} ends inside a value whose quote was opened "
                f"in line {self._quotes.opened}",
                'Close the quote; a " inside a value is written twice.',
            )

    def read_to_end(self, block: int) -> None:
        """Read the rest of the file, to find out whether a quote is open."""
        self._stopped = False
        while self.read(block):
            pass


def _end_of_line(piece: bytes) -> int:
    """Where the last line of a piece ends; a lone carriage return counts if there is no newline."""
    return piece.rfind(b"\n") + 1 or piece.rfind(b"\r", 0, -1) + 1
