"""Expressions of one dictionary-encoded column: evaluated for each word of it, not for each row."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.kernels.context import Context
from penstock.kernels.vector import Failures, Vector, is_text
from penstock.sql.expressions import Call, Cast, Column, Expression, rebuild, walk


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
