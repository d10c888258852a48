"""Lists of dicts as record batches: compiled code reads the numbers, through Python's C interface.

Most of the cost of a list of dicts is a lookup, a check of the type and a conversion for each
value. Compiled code makes them for all columns of numbers at once. It takes exact values only: an
``int`` in the range of an integer column, and in a column of floats a ``float``, or an ``int`` that
is one exactly. It stops a column at any other value, NULL included, and a list at any row that is
not a dict with the keys of the first one. :mod:`penstock.streams.convert` reads what was stopped,
so this module decides how a list is read, never what it means.

The code calls functions of Python's stable interface, by name, and holds the interpreter lock. It
reads a copy of the list, so nothing that a lookup may run (the ``__eq__`` of a foreign key) can
take a row away. Nothing runs between the lookup of a value and its conversion either, since an
exact ``int`` or ``float`` converts without a method.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import config, types
from numba.core.types import ExternalFunction

from penstock.kernels.machine_code import njit
from penstock.streams.rows import match_keys, python_to_array
from penstock.streams.schema import Stream
from penstock.tuning import TUNING

Numbers = npt.NDArray[np.int64]


def _function(name: str, result: Any, *arguments: Any) -> Any:
    """A function of Python's C interface, for compiled code."""
    return ExternalFunction(name, result(*arguments))


_item_of_list = _function("PyList_GetItem", types.intp, types.intp, types.intp)
_item_of_dict = _function("PyDict_GetItem", types.intp, types.intp, types.intp)
_size_of_dict = _function("PyDict_Size", types.intp, types.intp)
_type_of = _function("PyObject_Type", types.intp, types.intp)
_release = _function("Py_DecRef", types.void, types.intp)
_float_of = _function("PyFloat_AsDouble", types.float64, types.intp)
_int_of = _function("PyLong_AsLongLongAndOverflow", types.int64, types.intp, types.intp)

_CLASSES = np.array([id(dict), id(int), id(float)])


@njit(nogil=False)
def _read(
    rows: int,
    count: int,
    size: int,
    classes: Numbers,
    keys: Numbers,
    floating: npt.NDArray[np.bool_],
    bounds: Numbers,
    out: Numbers,
    done: Numbers,
) -> bool:
    """Read columns of numbers; whether every row is a dict of that size with all the keys.

    ``rows``, ``classes`` and ``keys`` are addresses of objects. ``done`` gets the number of values
    read of each column, and ``out`` these values, as bits.
    """
    reals = out.view(np.float64)
    overflow = np.zeros(1, np.int32)
    for i in range(count):
        row = _item_of_list(rows, i)
        kind = _type_of(row)
        _release(kind)
        if kind != classes[0] or _size_of_dict(row) != size:
            return False
        for j in range(len(keys)):
            if done[j] < i:
                continue
            value = _item_of_dict(row, keys[j])
            if value == 0:
                return False
            kind = _type_of(value)
            _release(kind)
            if kind == classes[2] and floating[j]:
                reals[j, i] = _float_of(value)
            elif kind == classes[1]:
                number = _int_of(value, overflow.ctypes.data)
                if overflow[0] != 0 or number < bounds[j, 0] or number > bounds[j, 1]:
                    continue
                if floating[j]:
                    reals[j, i] = number
                else:
                    out[j, i] = number
            else:
                continue
            done[j] = i + 1
    return True


class _Column(NamedTuple):
    """A column: its key in the rows, its type; if it has numbers, their place and NumPy's type."""

    key: object
    type: pa.DataType
    place: int | None
    dtype: np.dtype[Any] | None


class DictReader:
    """Reads lists pushed to a stream, of dicts with the keys of the first one.

    ``serves`` is false if these keys are not one for each column; another reader is needed then.

    >>> stream = Stream.of("R", pa.schema({"x": pa.int32(), "s": pa.string()}))
    >>> DictReader(stream, ("s", "X")).batch([{"s": "a", "X": 1}, {"s": "b", "X": 2}]).to_pydict()
    {'x': [1, 2], 's': ['a', 'b']}
    """

    def __init__(self, stream: Stream, keys: tuple[object, ...]) -> None:
        self.stream = stream
        self.keys = keys
        mapping, problem = match_keys(stream, keys)
        # A key of a subclass of str would run code of its own when it is looked up.
        self.serves = (
            problem is None and len(keys) == len(mapping) and set(map(type, keys)) == {str}
        )
        numeric = [field for field in stream.schema if _is_number(field.type)]
        places = {field.name: place for place, field in enumerate(numeric)}
        self._columns = [
            _Column(key, field.type, places.get(field.name), _dtype(field.type))
            for key, field in zip(mapping, stream.schema, strict=True)
        ]
        numbers = [column.key for column in self._columns if column.place is not None]
        self._addresses = np.array([id(key) for key in numbers], np.int64)
        self._floating = np.array([pa.types.is_floating(one.type) for one in numeric], np.bool_)
        self._bounds = np.array([_bounds(one.type) for one in numeric], np.int64).reshape(-1, 2)

    def batch(self, rows: list[Any]) -> pa.RecordBatch | None:
        """The rows as a batch; None if they are not alike, or a value does not fit."""
        rows = list(rows)
        out = np.empty((len(self._addresses), len(rows)), np.int64)
        done = np.zeros(len(out), np.int64)
        plan = self._addresses, self._floating, self._bounds
        if not _read(id(rows), len(rows), len(self.keys), _CLASSES, *plan, out, done):
            return None
        complete = (done == len(rows)).tolist()
        arrays: list[pa.Array[Any]] = []
        for key, kind, place, dtype in self._columns:
            array = None
            if place is not None and dtype is not None and complete[place]:
                array = _numbers_as(out[place], dtype)
            if array is None:
                try:
                    array, reasons = python_to_array([row[key] for row in rows], kind)
                except KeyError:
                    return None
                if reasons:
                    return None
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.stream.schema)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _bounds(kind: pa.DataType) -> tuple[int, int]:
    """The smallest and the largest int that the type has, among those of 64 bits with a sign.

    Beyond the bounds of floats, not every integer is one.
    """
    if pa.types.is_floating(kind):
        largest = 2**24 if pa.types.is_float32(kind) else 2**53
        return -largest, largest
    known = np.iinfo(_dtype(kind) or np.int64)
    return int(known.min), min(int(known.max), 2**63 - 1)


def _dtype(kind: pa.DataType) -> np.dtype[Any] | None:
    return np.dtype(kind.to_pandas_dtype()) if _is_number(kind) else None


def _numbers_as(bits: Numbers, dtype: np.dtype[Any]) -> pa.Array[Any] | None:
    """The numbers of a column as an array of its type; None if a narrow float is infinite.

    It is a copy: otherwise a column that is kept would keep the numbers of all.
    """
    numbers: npt.NDArray[Any]
    if dtype.kind != "f":
        numbers = bits.astype(dtype)
    else:
        with np.errstate(over="ignore"):
            numbers = bits.view(np.float64).astype(dtype)
        if dtype == np.float32 and np.isinf(numbers).any():
            return None
    array: pa.Array[Any] = pa.array(numbers)
    return array


class DictRows:
    """The lists of dicts that are pushed to an engine.

    Compiled code reads them from a number of lists on: loading it, or compiling it on a machine's
    first use, is not worth it for a few.
    """

    def __init__(self) -> None:
        self._lists = 0
        self._readers: dict[str, DictReader] = {}

    def batch(self, stream: Stream, data: list[Any]) -> pa.RecordBatch | None:
        """A list of dicts as a batch; None if it is something else, or for other code to read."""
        if not data or type(data[0]) is not dict:
            return None
        if self._lists < TUNING.lists_to_compile or config.DISABLE_JIT:  # type: ignore[attr-defined]
            self._lists += 1
            return None
        keys = tuple(data[0])
        reader = self._readers.get(stream.name)
        if reader is None or reader.stream is not stream or reader.keys != keys:
            reader = self._readers[stream.name] = DictReader(stream, keys)
        return reader.batch(data) if reader.serves else None
