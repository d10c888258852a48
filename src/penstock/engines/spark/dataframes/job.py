"""What the executors are told: a query, its streams, and how their tuples are put in order."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow as pa

from penstock.engines.shared.saved import save_stream
from penstock.engines.spark.dataframes.partition import KeyedLane
from penstock.engines.spark.dataframes.sequencer import ArrivalOrder, KeyOrder, Lane, Sequencer
from penstock.program.blocks import AggregateRows

QUERY = "query"
"""The name of the one query in a core."""


@dataclass(frozen=True)
class Job:
    """A query over DataFrames, checked. It is pickled and sent to the executors.

    Parameters
    ----------
    text
        The SQL.
    lanes
        The streams in the order of the query's text, with their keys.
    by_key
        Whether tuples are held and taken by their key; else as they arrive.
    idle
        After how many milliseconds a stream without tuples holds the others up no longer.
    letters
        Whether late tuples and dead letters come out as rows.
    ordered
        Whether rows are to come out in the order that the query asks for.
    stateless
        Whether each row depends on one tuple alone, so that order and state do not matter.
    bounded
        Whether the streams have an end: they are static DataFrames.
    schema
        The columns of the result as the query makes them.
    names
        Their names in Spark, where each is used once.
    keys
        What divides the tuples of each lane among the cores; None if every core sees all.
    partial
        The aggregate whose partial results the partitions of the input make, so that the cores see
        those instead of tuples; None if they see tuples.
    always
        Whether there is a row even if there is no tuple: an aggregate of all of a bounded stream.
    update
        Whether each trigger brings the rows that it has changed; else they come when they are
        final.
    """

    text: str
    lanes: tuple[Lane, ...]
    by_key: bool
    idle: int | None
    letters: bool
    ordered: bool
    stateless: bool
    bounded: bool
    order_column: str | None
    schema: pa.Schema
    names: tuple[str, ...]
    keys: tuple[KeyedLane, ...] | None = None
    partial: AggregateRows | None = None
    always: bool = False
    update: bool = False

    @property
    def has_width(self) -> bool:
        """Whether all its tuples take the same number of bytes."""
        kinds = [field.type for lane in self.lanes for field in lane.stream.schema]
        return all(pa.types.is_primitive(kind) or pa.types.is_decimal(kind) for kind in kinds)

    def sequencer(self) -> Sequencer:
        """What puts the tuples of this query in order; nothing has arrived yet."""
        return KeyOrder(self.lanes, self.idle) if self.by_key else ArrivalOrder(self.lanes)

    def described(self) -> str:
        """All that the state of the query depends on; a checkpoint of another is refused."""
        return json.dumps(
            {
                "text": self.text,
                "streams": [save_stream(lane.stream) for lane in self.lanes],
                "keys": [[lane.column and lane.column.name, lane.delay] for lane in self.lanes],
                "by_key": self.by_key,
                "idle": self.idle,
                "divided": [str(one.key) for one in self.keys or ()],
                **({"partial": True, "update": self.update} if self.partial is not None else {}),
            }
        )


def text_of(description: str) -> str:
    """The SQL in what :meth:`Job.described` has made."""
    text: str = json.loads(description)["text"]
    return text
