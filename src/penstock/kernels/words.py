"""Expressions of one dictionary-encoded column: evaluated for each word of it, not for each row."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernels.context import Context
from penstock.kernels.vector import Failures, Vector, is_text
from penstock.sql.expressions import Call, Cast, Column, Expression, Literal, rebuild, walk


def by_words(expression: Cast | Call, context: Context) -> Vector | None:
    """The value in every row; None if the expression is not such a one, or there are few rows.

    Nor if it fails for some word, since failures count by rows.
    """
    found = _asked_of_words(expression)
    if found is None:
        return None
    read, asked = found
    column: Any = context.inputs[read.side].column(read.index)
    if not pa.types.is_dictionary(column.type) or len(column.dictionary) >= len(column):
        return None
    # One word more, for the rows that have none.
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
    """The codes of a column and the one that it is compared with, if a condition is no more.

    It is true in the rows that have that code; -1 if no row has it. None for other conditions.
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
def _asked_of_words(expression: Cast | Call) -> tuple[Column, Expression] | None:
    """The one column of strings or binaries that it reads, and it with that column for its first.

    None if it reads others, or gives strings itself, which are kept another way.
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
