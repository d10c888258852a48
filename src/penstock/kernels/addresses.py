"""Reading and writing arrays by address, so that a compiled function needs few arguments.

Passing an array to a compiled function costs about as much as comparing a thousand keys. A
single-tuple push touches dozens of arrays, the same ones for thousands of tuples; so their
addresses are passed in one array. The code that writes an address there keeps the array alive.

Each function here also runs as plain Python, so that generated kernels can be tested uncompiled.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import carray  # type: ignore[attr-defined]
from numba.core import cgutils, types
from numba.extending import intrinsic, overload, register_jitable

Array = npt.NDArray[Any]


def at(address: int, count: int, kind: type[np.generic]) -> Array:
    """The ``count`` elements of type ``kind`` that start at an address; not a copy."""
    if count == 0:
        return np.empty(0, np.dtype(kind))
    memory: Any = (ctypes.c_char * (int(count) * np.dtype(kind).itemsize)).from_address(
        int(address)
    )
    return np.frombuffer(memory, np.dtype(kind))


def address_of(array: Array) -> int:
    """The address of an array's first element."""
    memory: Any = array
    # Several times faster than array.ctypes.data, which creates Python objects on the way.
    return pa.py_buffer(memory).address


class _BorrowedMemory:
    """Memory in NumPy's array interface; keeps its owner alive."""

    def __init__(self, owner: Array, interface: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = interface


def alias(array: Array) -> Array:
    """The same memory as an array that is marked writable; it must not be written to.

    To Numba a read-only array has another type, so a function would be compiled again for every
    mixture of arguments: Arrow's memory is read-only, computed arrays are not.
    """
    if array.flags.writeable:
        return array
    interface = dict(array.__array_interface__)
    interface["data"] = (interface["data"][0], False)
    return np.asarray(_BorrowedMemory(array, interface))


@intrinsic
def _pointer(context: Any, address: Any) -> Any:
    def code(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), code


@overload(at)
def _compiled_at(address: Any, count: Any, kind: Any) -> Callable[..., Any]:
    def compiled(address: Any, count: Any, kind: Any) -> Any:
        return carray(_pointer(address), (count,), kind)  # type: ignore[call-arg]

    return compiled


@register_jitable
def drop_one(span: Array) -> None:
    """Drop the first element of a buffer; ``span`` is the buffer's start and end."""
    drop(span, 1)


@register_jitable
def drop(span: Array, count: int) -> None:
    """Drop the first elements of a buffer."""
    span[0] += count
    if span[0] == span[1]:
        span[0] = 0
        span[1] = 0
