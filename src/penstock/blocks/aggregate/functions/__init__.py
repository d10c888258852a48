"""Aggregate functions. A new one is a file here and an entry in :data:`AGGREGATES`."""

from __future__ import annotations

from collections.abc import Callable

from penstock.blocks.aggregate.functions.avg import Avg
from penstock.blocks.aggregate.functions.cells import Aggregate
from penstock.blocks.aggregate.functions.count import Count
from penstock.blocks.aggregate.functions.count_distinct import CountDistinct
from penstock.blocks.aggregate.functions.first_last import FirstLast
from penstock.blocks.aggregate.functions.min_max import MinMax
from penstock.blocks.aggregate.functions.sum import Sum
from penstock.blocks.aggregate.functions.variance import Variance
from penstock.sql.plan import Call

AGGREGATES: dict[str, Callable[[Call], Aggregate]] = {
    "count": Count,
    "count distinct": CountDistinct,
    "sum": Sum,
    "avg": Avg,
    "min": MinMax,
    "max": MinMax,
    "var_pop": Variance,
    "var_samp": Variance,
    "stddev_pop": Variance,
    "stddev_samp": Variance,
    "first": FirstLast,
    "last": FirstLast,
}


def aggregate_of(call: Call) -> Aggregate:
    """The function that a call names."""
    return AGGREGATES[f"{call.name} distinct" if call.distinct else call.name](call)
