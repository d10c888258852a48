"""The job for the executors: a query, its streams, and the order of their tuples."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.engines.spark.dataframes.partition import KeyedLane
from penstock.engines.spark.dataframes.sequencer import ArrivalOrder, KeyOrder, Lane, Sequencer
from penstock.program.isa.block_instructions import AggregateRows, Program
from penstock.program.isa.encoding import encode
from penstock.program.isa.instructions import CreateStream

QUERY = "query"
"""The name of the one query in a core."""


@dataclass(frozen=True)
class Job:
    """A query over DataFrames, checked. It is pickled and sent to the executors.

    Parameters
    ----------
    program
        The query, compiled.
    lanes
        The streams in the order of the query's text, with their keys.
    by_key
        Whether tuples wait and are taken by their key; else as they arrive.
    idle
        The milliseconds after which the others no longer wait for a stream without tuples.
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
        The keys that divide the tuples of each lane among the cores; None if every core sees all.
    partial
        The aggregate whose partial results the partitions of the input make, so that the cores see
        those instead of tuples; None if they see tuples.
    always
        Whether there is a row even if there is no tuple: an aggregate of all of a bounded stream.
    update
        Whether each trigger brings the rows that it has changed; else they come when they are
        final.
    derived
        The derived streams that the query reads, names and programs, each before its readers.
    """

    program: Program
    lanes: tuple[Lane, ...]
    by_key: bool
    idle: int | None
    letters: bool
    ordered: bool
    stateless: bool
    bounded: bool
    schema: pa.Schema
    names: tuple[str, ...]
    keys: tuple[KeyedLane, ...] | None = None
    partial: AggregateRows | None = None
    always: bool = False
    update: bool = False
    derived: tuple[tuple[str, Program], ...] = ()

    @property
    def has_width(self) -> bool:
        """Whether all its tuples take the same number of bytes."""
        kinds = [field.type for lane in self.lanes for field in lane.stream.schema]
        return all(pa.types.is_primitive(kind) or pa.types.is_decimal(kind) for kind in kinds)

    @property
    def streams(self) -> list[str]:
        """The names of the streams that a tuple can be late of."""
        return [*(lane.stream.name for lane in self.lanes), *(name for name, _ in self.derived)]

    @property
    def script(self) -> str:
        """The SQL of the query and its derived streams."""
        derived = (f"CREATE STREAM {name} AS {one.text};" for name, one in self.derived)
        return " ".join([*derived, self.program.text])

    def sequencer(self) -> Sequencer:
        """A new sequencer for the tuples of this query."""
        return KeyOrder(self.lanes, self.idle) if self.by_key else ArrivalOrder(self.lanes)

    def described(self) -> dict[str, Any]:
        """The parts of the job that its state depends on; a checkpoint of another job is refused.

        Another spelling of the query is the same; ``text`` is for people.
        """
        said = {
            "text": self.script,
            "program": self.program.digest,
            "derived": [[name, one.digest] for name, one in self.derived],
            "streams": [encode(CreateStream(lane.stream)) for lane in self.lanes],
            "keys": [[lane.column and lane.column.name, lane.delay] for lane in self.lanes],
            "by_key": self.by_key,
            "idle": self.idle,
            "divided": [[one.side, one.delay] for one in self.keys or ()],
            **({"partial": True, "update": self.update} if self.partial is not None else {}),
        }
        described: dict[str, Any] = json.loads(json.dumps(said))
        return described


def differs(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether two descriptions are of different jobs."""
    return {**before, "text": ""} != {**now, "text": ""}


def is_same_query(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether two descriptions are of the same query, over any columns and options."""
    programs = (before["program"], before["derived"]) == (now["program"], now["derived"])
    return programs or before["text"].split() == now["text"].split()
