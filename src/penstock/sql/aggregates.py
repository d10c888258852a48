"""The aggregate functions: their names in SQL, and how engines may compute them.

``docs/semantics.md`` defines their meaning.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AggregateFunction:
    """An aggregate function.

    Parameters
    ----------
    functions
        Its names in SQL.
    argument
        By this name the binder finds how to convert its argument and what type it gives:
        ``BINDERS`` in ``sql/bind/aggregate_functions.py``.
    invertible
        Values can be subtracted when a window moves on; of the others two stacks are kept.
    by_arrival
        It depends on the order of arrival, which a join has to keep for it, and which parts of a
        stream that are folded apart, and threads, do not know.
    """

    functions: tuple[str, ...]
    argument: str
    invertible: bool = False
    by_arrival: bool = False


AGGREGATES: dict[str, AggregateFunction] = {
    "avg": AggregateFunction(("AVG",), "average", invertible=True),
    "count": AggregateFunction(("COUNT",), "any", invertible=True),
    "stddev_pop": AggregateFunction(("STDDEV_POP",), "variance", invertible=True),
    "stddev_samp": AggregateFunction(("STDDEV_SAMP", "STDDEV"), "variance", invertible=True),
    "sum": AggregateFunction(("SUM",), "sum", invertible=True),
    "var_pop": AggregateFunction(("VAR_POP",), "variance", invertible=True),
    "var_samp": AggregateFunction(("VAR_SAMP", "VARIANCE"), "variance", invertible=True),
    "first": AggregateFunction(("FIRST",), "comparable", by_arrival=True),
    "last": AggregateFunction(("LAST",), "comparable", by_arrival=True),
    "max": AggregateFunction(("MAX",), "comparable"),
    "min": AggregateFunction(("MIN",), "comparable"),
}
"""By the name of the call. VARIANCE and STDDEV are those of samples, as in Spark."""
