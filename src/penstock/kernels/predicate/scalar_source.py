"""Expressions over one tuple, as lines of a generated function.

The lines compute what :func:`penstock.kernels.expressions.evaluate.evaluate` does for a batch of
one. Where that would give NULL and count a failure, the lines return instead, before anything has
been changed, and the caller evaluates the tuple as a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.kernels.expressions.vector import SMALL_DECIMAL, unscaled
from penstock.kernels.predicate.predicate import Key
from penstock.sql.expressions import COMPARISONS, Call, Cast, Column, Expression, Literal

ARITHMETIC = {"add": "+", "sub": "-", "mul": "*"}
SYMBOLS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
ROUNDS_TO_INFINITY = (2.0 - 2.0**-24) * 2.0**127
"""A double from here on rounds to an infinite single."""


class Unsupported(Exception):
    """The expression can only be evaluated over batches."""


def parameters(schema: pa.Schema) -> list[str]:
    """The parameters for a tuple's physical values, column by column.

    An integer or a float; of a decimal both words, ``v0`` and ``w0``; of a string or binary its
    code in the join's dictionary, or anything if the join has no use for it.
    """
    return [
        name
        for index, field in enumerate(schema)
        for name in (("v", "w") if pa.types.is_decimal(field.type) else ("v",))
        for name in (f"{name}{index}",)
    ]


def is_whole(kind: pa.DataType) -> bool:
    """Whether values of a type compare as the 64-bit integers that they are kept as."""
    types = pa.types
    if types.is_decimal(kind):
        return bool(kind.precision <= SMALL_DECIMAL)
    return bool(types.is_integer(kind) or types.is_date32(kind) or types.is_timestamp(kind))


class ScalarSource:
    """The generated lines, and the constants that they read from the array ``state``.

    Parameters
    ----------
    schema
        The stream's columns; for their values see :func:`parameters`.
    refuse
        The statement that leaves the function.
    offset
        Where in ``state`` the constants begin; ``real`` is the same array read as floats.
    elsewhere
        Gives the name of a column that is not the tuple's; None if it is.
    """

    def __init__(
        self,
        schema: pa.Schema,
        refuse: str,
        offset: int,
        elsewhere: Callable[[Column], str | None] = lambda column: None,
    ) -> None:
        self._refuse = refuse
        self._offset = offset
        self._elsewhere = elsewhere
        self._bits = 0
        self._names: dict[Expression, str] = {}
        self._unreadable: set[int] = set()
        self.lines: list[str] = []
        self.constants: list[int | float] = []
        for index, field in enumerate(schema):
            self._read(index, field.type)

    def _read(self, index: int, kind: pa.DataType) -> None:
        """A physical value as one of the column's type, if it is one."""
        given, name = f"v{index}", f"value{index}"
        if is_whole(kind):
            self.lines.append(f"{name} = np.int64({given})")
            self._keep_within(name, kind)
        elif pa.types.is_boolean(kind):
            self.lines.append(f"{name} = {given} != 0")
        elif pa.types.is_float64(kind):
            self.lines.append(f"{name} = np.float64({given})")
        elif pa.types.is_float32(kind):
            large = f"abs({given}) >= {ROUNDS_TO_INFINITY!r} and abs({given}) != np.inf"
            self.lines += [f"if {large}:", f"    {self._refuse}", f"{name} = np.float32({given})"]
        else:
            self._unreadable.add(index)

    def _keep_within(self, name: str, kind: pa.DataType) -> None:
        if not pa.types.is_integer(kind):
            return
        dtype: Any = kind.to_pandas_dtype()
        limits = np.iinfo(dtype)
        if limits.bits < 64:
            self.lines.append(f"if {name} < {limits.min} or {name} > {limits.max}:")
        elif limits.min == 0:
            self.lines.append(f"if {name} < 0:")
        else:
            return
        self.lines.append(f"    {self._refuse}")

    def value(self, expression: Expression) -> str:
        """The name of the expression's value: np.int64 for integers, a float, or a bool."""
        if isinstance(expression, Column):
            elsewhere = self._elsewhere(expression)
            if elsewhere is not None:
                return elsewhere
            if expression.index in self._unreadable:
                raise Unsupported(expression)
            return f"value{expression.index}"
        known = self._names.get(expression)
        if known is None:
            source = self._source(expression)
            known = self._names[expression] = f"t{len(self._names)}"
            self.lines.append(f"{known} = {source}")
            self._keep_within(known, expression.type)
        return known

    def _source(self, expression: Expression) -> str:
        if isinstance(expression, Literal):
            return self._literal(expression)
        if isinstance(expression, Cast):
            return self._cast(expression)
        if not isinstance(expression, Call):
            raise Unsupported(expression)
        if expression.op in COMPARISONS:
            return self._comparison(expression)
        if expression.op in ("and", "or") and len(expression.args) == 2:
            left, right = map(self.value, expression.args)
            return f"{left} {'&' if expression.op == 'and' else '|'} {right}"
        if expression.op == "not":
            return f"{self.value(expression.args[0])} == False"
        return self._arithmetic(expression)

    def _literal(self, literal: Literal) -> str:
        value, kind = literal.value, literal.type
        if isinstance(value, bool):
            return f"({1 if value else 0} == 1)"
        if pa.types.is_decimal(kind) and is_whole(kind) and value is not None:
            return self.constant(unscaled(value, kind.scale))
        if is_whole(kind) and isinstance(value, int) and LEAST <= value <= MOST:
            return self.constant(value)
        if pa.types.is_floating(kind) and isinstance(value, int | float):
            name = self.constant(float(value))
            return f"np.float32({name})" if pa.types.is_float32(kind) else name
        raise Unsupported(literal)

    def constant(self, value: int | float) -> str:
        """The source of a constant: it is an argument, so other constants need no other code."""
        self.constants.append(value)
        slot = self._offset + len(self.constants) - 1
        return f"{'real' if isinstance(value, float) else 'state'}[{slot}]"

    def _cast(self, cast: Cast) -> str:
        source, target = cast.arg.type, cast.type
        if pa.types.is_integer(source) and pa.types.is_integer(target):
            return self.value(cast.arg)
        if pa.types.is_floating(target) and pa.types.is_floating(source):
            if pa.types.is_float64(target):
                return f"np.float64({self.value(cast.arg)})"
        elif pa.types.is_float64(target) and pa.types.is_integer(source):
            return f"np.float64({self.value(cast.arg)})"
        raise Unsupported(cast)

    def _comparison(self, call: Call) -> str:
        kind = call.args[0].type
        exact = is_whole(kind) or pa.types.is_boolean(kind)
        if not exact and not pa.types.is_floating(kind):
            raise Unsupported(call)
        a, b = map(self.value, call.args)
        if exact:
            return f"{a} {SYMBOLS[call.op]} {b}"
        # NaN is larger than every number and equal to itself; IEEE says it is neither.
        return {
            "eq": f"({a} == {b}) | (({a} != {a}) & ({b} != {b}))",
            "ne": f"({a} != {b}) & (({a} == {a}) | ({b} == {b}))",
            "lt": f"({a} < {b}) | (({b} != {b}) & ({a} == {a}))",
            "gt": f"({a} > {b}) | (({a} != {a}) & ({b} == {b}))",
            "le": f"({a} <= {b}) | ({b} != {b})",
            "ge": f"({a} >= {b}) | ({a} != {a})",
        }[call.op]

    def _arithmetic(self, call: Call) -> str:
        symbol, kind = ARITHMETIC.get(call.op), call.type
        if symbol is None:
            raise Unsupported(call)
        a, b = map(self.value, call.args)
        if pa.types.is_floating(kind):
            return f"{a} {symbol} {b}"
        if not pa.types.is_integer(kind):
            raise Unsupported(call)
        bits = np.dtype(kind.to_pandas_dtype()).itemsize * 8
        if call.op == "mul" and bits >= 32 and not pa.types.is_int32(kind):
            raise Unsupported(call)
        if bits == 64:
            self._rule_out_overflow(call.op, a, b)
        return f"{a} {symbol} {b}"

    def _rule_out_overflow(self, op: str, a: str, b: str) -> None:
        """Return before computing a sum of 64-bit integers that does not fit."""
        high, low = (f"{MOST} - {b}", f"{LEAST} - {b}")
        if op == "sub":
            high, low = f"{MOST} + {b}", f"{LEAST} + {b}"
        above, below = ("> 0", "< 0") if op == "add" else ("< 0", "> 0")
        self.lines.append(f"if ({b} {above} and {a} > {high}) or ({b} {below} and {a} < {low}):")
        self.lines.append(f"    {self._refuse}")

    # -- keys -------------------------------------------------------------------------------

    def key(self, key: Key, dtype: np.dtype[Any]) -> str:
        """The source of a key, computed as :mod:`keys` does for a column."""
        kind = key.expression.type
        if key.kind == "code" and isinstance(key.expression, Column):
            return f"np.int32(v{key.expression.index})"
        value = self.value(key.expression)
        if key.kind == "native" or pa.types.is_boolean(kind):
            return f"np.{dtype.name}({value})"
        if pa.types.is_uint64(kind):
            return f"({value} ^ np.int64({LEAST}))"
        if is_whole(kind):
            return f"np.{dtype.name}({value})"
        if key.kind != "compare" or not pa.types.is_floating(kind):
            raise Unsupported(key.expression)
        floating, top = f"np.float{8 * dtype.itemsize}", f"np.{dtype.name}({np.iinfo(dtype).max})"
        bits, self._bits = f"b{self._bits}", self._bits + 1
        self.lines += [
            f"{bits} = {floating}({value} + {floating}(0.0)).view(np.{dtype.name})",
            f"{bits} = np.{dtype.name}({bits} ^ {top}) if {bits} < 0 else {bits}",
            f"{bits} = {top} if {value} != {value} else {bits}",
        ]
        return bits

    def number(self, key: Key) -> str:
        """A key as the float that a grid places it by; grids have no codes."""
        if key.kind == "code":
            return "0.0"
        return f"np.float64({self.value(key.expression)})"
