"""Expressions over one dictionary-encoded column, evaluated per dictionary entry, not per row."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernels.expressions.context import Context
from penstock.kernels.expressions.vector import Failures, Vector, is_text
from penstock.sql.expressions import Call, Cast, Column, Expression, Literal, rebuild, walk


def by_entries(expression: Cast | Call, context: Context) -> Vector | None:
    """The value in every row; None if the expression cannot, or should not, be evaluated this way.

    That is if it reads other columns, if the dictionary is larger than the batch, and if it fails
    for an entry, since failures are counted per row.
    """
    found = _over_entries(expression)
    if found is None:
        return None
    read, asked = found
    column: Any = context.inputs[read.side].column(read.index)
    if not pa.types.is_dictionary(column.type) or len(column.dictionary) >= len(column):
        return None
    # One more entry, NULL, for the rows that are NULL.
    none: Any = pa.array([None], read.type)
    words = pa.concat_arrays([column.dictionary, none])
    batch = pa.RecordBatch.from_arrays([words], names=[read.name])
    failures = Failures()
    within = Context((batch,), len(words), failures, context.evaluate)
    answers = context.evaluate(asked, within)
    if failures.count:
        return None
    codes: Any = column.indices
    if column.null_count:
        codes = codes.cast(pa.int32()).fill_null(len(column.dictionary))
    which = codes.to_numpy()
    valid = None
    if answers.valid is not None and (column.null_count or not answers.valid[:-1].all()):
        valid = answers.valid.take(which)
    return Vector(np.asarray(answers.values).take(which), valid, answers.type)


def code_of(condition: Expression, batch: pa.RecordBatch) -> tuple[Any, int] | None:
    """The codes of a column and the code to compare with, if a condition is ``column = literal``.

    The code is -1 if no row has the value. None for other conditions.
    """
    if not isinstance(condition, Call) or condition.op != "eq":
        return None
    read, word = condition.args
    if isinstance(read, Literal):
        read, word = word, read
    if not isinstance(read, Column) or not isinstance(word, Literal) or word.value is None:
        return None
    column: Any = batch.column(read.index)
    if not pa.types.is_dictionary(column.type) or column.null_count:
        return None
    compute: Any = pc
    same = compute.equal(column.dictionary, pa.scalar(word.value, read.type)).to_numpy(False)
    places = np.flatnonzero(same)
    if len(places) > 1:
        return None
    return column.indices.to_numpy(), int(places[0]) if len(places) else -1


@functools.lru_cache(maxsize=4096)
def _over_entries(expression: Cast | Call) -> tuple[Column, Expression] | None:
    """The only column that an expression reads, and the expression over that column as the first.

    None if it reads other columns, if the column is not of strings or binaries, or if the result
    is.
    """
    columns = {node for node in walk(expression) if isinstance(node, Column)}
    if len(columns) != 1 or is_text(expression.type):
        return None
    (read,) = columns
    if not is_text(read.type):
        return None

    def renumber(node: Expression) -> Expression:
        if isinstance(node, Column):
            return replace(node, side=0, index=0)
        return rebuild(node, renumber)

    return read, renumber(expression)
