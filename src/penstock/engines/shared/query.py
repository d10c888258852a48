"""A running query, as its user sees it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.run import Letters, Run
from penstock.engines.shared.loose_rows import LooseRows, Source
from penstock.engines.shared.running import Letter, count, letter_batch, written
from penstock.engines.shared.shedding import RANGES, Shedding
from penstock.errors import BufferFull, QueryFailed
from penstock.program.blocks import Program
from penstock.program.flow_choice import ANY_FLOW, FlowChoice


class Hosting(Protocol):
    """Where the blocks of a query are: here, or in the cores of a cluster."""

    @property
    def program(self) -> Program:
        """The program in force."""

    def measures(self) -> dict[str, Any]:
        """What the blocks have counted, and the state of their windows."""

    def clear(self) -> None:
        """The query is dropped: let the blocks go."""


class Steering(Protocol):
    """What a handle asks of its engine."""

    def change(self, name: str, sql: str) -> None: ...

    def drop(self, name: str) -> None: ...

    def _explain(
        self, sql: str, order: str | None, kernel: str | None, choice: FlowChoice
    ) -> str: ...

    def _go_on(self) -> None:
        """Somebody has drained."""


H = TypeVar("H", bound=Hosting)


@dataclass(frozen=True)
class Result:
    """Rows with the position in the input that each belongs to."""

    batch: pa.RecordBatch
    positions: npt.NDArray[np.int64]


class Query(Generic[H]):
    """A handle: drain the results, read the metrics, change or drop the query.

    Draining is safe from any thread, and makes room for a ``push`` that waits in another one.
    """

    def __init__(
        self,
        engine: Steering,
        name: str,
        pipeline: H,
        derived: bool,
        buffer_rows: int,
        sheds: bool = False,
    ) -> None:
        self.name = name
        self.derived = derived
        self.order: str | None = None
        self.kernel: str | None = None
        self.flow: FlowChoice = ANY_FLOW
        self.here = True
        self.failure: QueryFailed | None = None
        self._last_metrics: dict[str, Any] | None = None
        self._engine = engine
        self._buffer_rows = buffer_rows
        self._shedding = Shedding(buffer_rows, self._held, self._made) if sheds else None
        self._pressed_at = self._shedding.almost_full if self._shedding else buffer_rows + 1
        self._room = threading.Condition()
        self._results: deque[Result] = deque()
        self._loose: LooseRows | None = None
        self._letters: deque[Letter | Letters] = deque()
        self._waiting_rows = 0
        self._waiting_letters = 0
        self._rows_out = 0
        self._counts = {"late": 0, "dead": 0}
        self._tuples_in: dict[str, int] = {}
        self.pipeline = pipeline

    def __repr__(self) -> str:
        return f"<Query {self.name}: {self.text}>"

    @property
    def program(self) -> Program:
        return self.pipeline.program

    @property
    def text(self) -> str:
        """The SQL in force."""
        return self.program.text

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows that are made from here on."""
        return self.program.schema

    @property
    def undrained(self) -> int:
        """How many rows and letters wait to be drained."""
        return self._waiting_rows + self._waiting_letters

    # -- draining ---------------------------------------------------------------------------

    def rows(self) -> pa.Table:
        """Take the rows made so far, in order.

        After a change of the select list, the rows of the old columns come first and those of the
        new ones at the next call.
        """
        with self._room:
            self._gather_loose()
            schema = self._results[0].batch.schema if self._results else self.schema
            batches = []
            while self._results and self._results[0].batch.schema.equals(schema):
                batches.append(self._results.popleft().batch)
            self._make_room(sum(batch.num_rows for batch in batches), 0)
        self._engine._go_on()
        return pa.Table.from_batches(batches, schema)

    def drain(self) -> list[Result]:
        """Take the rows made so far, with their positions."""
        with self._room:
            self._gather_loose()
            results = list(self._results)
            self._results.clear()
            self._make_room(self._waiting_rows, 0)
        self._engine._go_on()
        return results

    def late(self) -> pa.Table:
        """Take the late tuples: stream, position, reason, and the tuple as SQL literals."""
        return self._letter_table("late")

    def dead_letters(self) -> pa.Table:
        """Take the records that could not be used, in the same columns as late tuples."""
        return self._letter_table("dead")

    def shed(self) -> pa.Table:
        """Take what admission control has dropped.

        Each row has a stream, the first and the last position of tuples that were dropped with none
        taken between them, and how many they are.
        """
        return RANGES.empty_table() if self._shedding is None else self._shedding.drain()

    def drain_letters(self, kind: str | None = None) -> list[Letter]:
        """Take late and dead letters (or those of one kind), by position."""
        with self._room:
            taken = [letter for letter in self._letters if kind in (None, letter.kind)]
            kept = [letter for letter in self._letters if kind not in (None, letter.kind)]
            self._letters = deque(kept)
            self._make_room(0, sum(map(count, taken)))
        self._engine._go_on()
        letters = [one for letter in taken for one in written(letter)]
        return sorted(letters, key=lambda letter: letter.position)

    def _letter_table(self, kind: str) -> pa.Table:
        batch = letter_batch(self.drain_letters(kind))
        return pa.Table.from_batches([batch]).drop_columns(["kind"])

    def _make_room(self, rows: int, letters: int) -> None:
        self._waiting_rows -= rows
        self._waiting_letters -= letters
        self._room.notify_all()

    # -- filling, by the engine -------------------------------------------------------------

    def _take_run(self, run: Run) -> None:
        self._take_letters(run.letters)
        self._rows_out += len(run)
        if len(run) and not self.derived:
            self._take_result(Result(run.inputs[0], run.positions))

    def _take_result(self, result: Result) -> None:
        with self._room:
            self._gather_loose()
            self._results.append(result)
            self._waiting_rows += result.batch.num_rows

    def _take_pairs(
        self,
        position: int,
        values: Sequence[object],
        partners: npt.NDArray[np.int64],
        sources: Sequence[Source],
    ) -> None:
        """Rows of a single tuple; see :class:`LooseRows`."""
        self._rows_out += len(partners)
        with self._room:
            if self._loose is None or self._loose.schema is not self.schema:
                self._gather_loose()
                self._loose = LooseRows(self.schema)
            self._loose.add(position, values, partners, sources)
            self._waiting_rows += len(partners)

    def _gather_loose(self) -> None:
        """Put loose rows into a batch; to be called with the lock held."""
        if self._loose is not None and len(self._loose):
            self._results.append(Result(*self._loose.batch()))

    def _take_letters(self, letters: Iterable[Letter | Letters]) -> None:
        for letter in letters:
            with self._room:
                self._letters.append(letter)
                self._waiting_letters += count(letter)
                self._counts[letter.kind] += count(letter)

    def _retire(self) -> None:
        """The query is dropped: its windows go, its last metrics and what it made stay."""
        self._last_metrics = self.metrics()
        self.pipeline.clear()

    def _saw(self, stream: str, tuples: int) -> None:
        self._tuples_in[stream] = self._tuples_in.get(stream, 0) + tuples

    def _held(self) -> int:
        return max(self._waiting_rows, self._waiting_letters)

    def _made(self) -> int:
        return self._rows_out + sum(self._counts.values())

    def _is_full(self) -> bool:
        # What sheds makes nobody wait: its buffer passes the limit by what a few tuples make.
        return self._shedding is None and self._held() > self._buffer_rows

    def _is_pressed(self) -> bool:
        """Whether a tuple that comes now must wait, or is to be shed."""
        return self._held() >= self._pressed_at

    def _admitted(self, runs: Mapping[str, Run]) -> Iterable[Mapping[str, Run]]:
        if self._shedding is None:
            return (runs,)
        names = {scan.stream.name.lower(): scan.stream.name for scan in self.program.scans}
        read = {name: run for name, run in runs.items() if name in names}
        return self._shedding.admitted(read, names)

    def _take_dead(self, letters: Sequence[Letter]) -> None:
        if self._shedding is None or not self._shedding.is_shedding():
            self._take_letters(letters)
            return
        for letter in letters:
            self._saw(letter.stream, 1)
            self._shedding.drop(letter.stream, np.array([letter.position], np.int64))

    def _wait_for_room(self, seconds: float) -> bool:
        """Wait until somebody has drained the query; False if nobody did in time."""
        until = time.monotonic() + seconds
        with self._room:
            while self._is_full():
                left = until - time.monotonic()
                if left <= 0 or not self._room.wait(left):
                    return not self._is_full()
        return True

    def _full_error(self, seconds: float, taken: int) -> BufferFull:
        """The error of a push of which so many tuples were taken before nobody drained."""
        return BufferFull(
            f"query {self.name!r} holds {self._waiting_rows} rows and {self._waiting_letters} "
            f"letters that nobody has drained in {seconds:g} seconds; {taken} tuples of this push "
            "were taken",
            f"Call rows(), late() and dead_letters() of {self.name!r}, then push the rest; or "
            "connect with a larger buffer_rows or push_timeout.",
            taken,
        )

    # -- steering ---------------------------------------------------------------------------

    def change(self, sql: str) -> None:
        """Give the query another text, exactly here in the input; its windows are kept."""
        self._engine.change(self.name, sql)

    def drop(self) -> None:
        """Stop the query. What it has made and nobody drained can still be drained."""
        self._engine.drop(self.name)

    def explain(self) -> str:
        """The plan, the program, the kernel and the flow, with the reasons for them."""
        return self._engine._explain(self.text, self.order, self.kernel, self.flow)

    def metrics(self) -> dict[str, Any]:
        """Counts since the query was installed, and the state of its windows."""
        if self._last_metrics is not None:
            waiting = {
                "undrained_rows": self._waiting_rows,
                "undrained_letters": self._waiting_letters,
            }
            return {**self._last_metrics, **waiting}
        return {
            "tuples_in": dict(self._tuples_in),
            "rows_out": self._rows_out,
            "shed": {} if self._shedding is None else dict(self._shedding.counts),
            "late": self._counts["late"],
            "dead_letters": self._counts["dead"],
            **self.pipeline.measures(),
            "undrained_rows": self._waiting_rows,
            "undrained_letters": self._waiting_letters,
        }
