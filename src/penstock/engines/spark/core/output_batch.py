"""One batch of the Spark query: the output of all cores, by query and in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engines.shared.failure import load_failure
from penstock.engines.shared.query import Result
from penstock.engines.shared.running_query import Letter
from penstock.engines.spark.resident.result_files import MergedRows, deliveries, merged
from penstock.errors import QueryFailed


@dataclass
class Batch:
    """The output in a batch for each query, by the number of its install.

    ``at`` has the position of each core, ``measures`` the measures of each core for a query.
    """

    number: int
    rows: dict[int, list[Result]] = field(default_factory=dict)
    letters: dict[int, list[Letter]] = field(default_factory=dict)
    failures: dict[int, QueryFailed] = field(default_factory=dict)
    measures: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)
    at: dict[int, int] = field(default_factory=dict)


def positions_in(table: pa.Table) -> dict[int, int]:
    """The position of each core, without reading the rows."""
    columns = [table.column(name).to_pylist() for name in ("kind", "core", "position")]
    return {core: at for kind, core, at in zip(*columns, strict=True) if kind == "done"}


def open_batch(number: int, table: pa.Table, cores: int) -> Batch:
    """Put the rows of all cores in the one order.

    If a query has failed on one core, the output of all cores from that position on is left out:
    the others do not know of the failure, and their rows alone would be incomplete.
    """
    batch = Batch(number)
    parts: dict[int, list[MergedRows]] = {}
    cut: dict[int, int] = {}
    for delivery in deliveries(table):
        query = delivery.query
        if delivery.kind == "done":
            batch.at[delivery.core] = delivery.position
        elif delivery.kind == "rows":
            parts.setdefault(query, []).append(delivery.rows())
        elif delivery.kind == "letters":
            batch.letters.setdefault(query, []).extend(delivery.letters())
        elif delivery.kind == "metrics":
            batch.measures.append((query, delivery.core, delivery.json()))
        else:
            cut[query] = min(delivery.position, cut.get(query, delivery.position))
            batch.failures.setdefault(query, load_failure(delivery.json()))
    for query, found in parts.items():
        # One core's rows are in order as they come.
        one = [Result(part.batch, part.positions) for part in found]
        batch.rows[query] = one if cores == 1 else list(merged(found))
    for query, position in cut.items():
        batch.rows[query] = _before(position, batch.rows.get(query, []))
        letters = batch.letters.get(query, [])
        batch.letters[query] = [letter for letter in letters if letter.position < position]
    return batch


def _before(position: int, results: list[Result]) -> list[Result]:
    cuts = [int(np.searchsorted(result.positions, position)) for result in results]
    return [
        Result(result.batch.slice(0, size), result.positions[:size])
        for result, size in zip(results, cuts, strict=True)
        if size
    ]
