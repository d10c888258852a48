"""The handle of a running query: its results, metrics and changes."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.blocks.loose_rows import ColumnSource, LooseRows
from penstock.blocks.run import Letters, MissedTuples, Run
from penstock.engines.shared.admission_control import RANGES, Shedding
from penstock.engines.shared.pipeline import Tally
from penstock.engines.shared.registry import Registry
from penstock.engines.shared.running_query import Letter, count, letter_batch, written
from penstock.errors import BufferFull, QueryFailed
from penstock.program.choose.explain import Explanation, ExplanationParts
from penstock.program.isa.block_instructions import Program
from penstock.program.isa.flow import FlowChoice
from penstock.signals import uninterrupted
from penstock.streams.display import counted, html_line, html_table, html_text, one_line
from penstock.streams.schema import describe


class BlockHost(Protocol):
    """Where the blocks of a query are: here, or in the cores of a cluster."""

    @property
    def program(self) -> Program:
        """The program in force."""

    def measures(self) -> dict[str, Any]:
        """The counts of the blocks, and the state of their windows."""

    def reported_counts(self) -> dict[str, Any]:
        """The counts that cores have reported; none if the blocks are here."""

    def tally(self) -> list[Tally]:
        """Where the tuples of each mention of a stream have gone so far."""

    def clear(self) -> None:
        """Release the blocks: the query is dropped."""


class QueryEngine(Protocol):
    """The engine of a query, as its handle uses it."""

    def change(self, name: str, sql: str | Program) -> None: ...

    def drop(self, name: str) -> None: ...

    def _explain(
        self, sql: str | Program, order: str | None, kernel: str | None, choice: FlowChoice
    ) -> ExplanationParts: ...

    @property
    def closed(self) -> bool:
        """Whether it takes no further input."""

    @property
    def registry(self) -> Registry[Any]:
        """The streams and queries, and the punctuations and ends of the streams."""

    def _go_on(self) -> None:
        """Use the room that draining has made."""


ACCOUNT_KINDS = ("stored", "expired", "passed", "late", "dead", "shed")
"""Where an input tuple can have gone: each is counted under one of these."""
H = TypeVar("H", bound=BlockHost)
T = TypeVar("T")

NOTEBOOK_ROWS = 20
"""The number of rows of a result that a notebook shows."""


@dataclass(frozen=True)
class Result:
    """Rows with the position in the input that each belongs to."""

    batch: pa.RecordBatch
    positions: npt.NDArray[np.int64]

    def __repr__(self) -> str:
        count = int(self.batch.num_rows)
        at = f" at positions {self.positions[0]} to {self.positions[-1]}" if count else ""
        return f"<Result: {counted(count, 'row')}{at} {describe(self.batch.schema)}>"

    def _repr_html_(self) -> str:
        shown = self.batch.slice(0, NOTEBOOK_ROWS)
        rows = zip(self.positions.tolist(), *(c.to_pylist() for c in shown.columns), strict=False)
        left = int(self.batch.num_rows) - NOTEBOOK_ROWS
        more = html_line(f"and {counted(left, 'row')} more") if left > 0 else ""
        return html_table(("position", *shown.schema.names), rows) + more


class Balance(NamedTuple):
    """The tuple counts of a query at one moment.

    Parameters
    ----------
    tuples, malformed, shed
        The tuples in, by stream; the malformed records that were not shed, by stream in lower
        case; the shed tuples and records, by stream.
    late, dead
        The number of letters.
    tallies
        Where the tuples of each mention of a stream have gone.
    """

    tuples: dict[str, int]
    malformed: dict[str, int]
    shed: dict[str, int]
    late: int
    dead: int
    tallies: list[Tally]

    @property
    def is_even(self) -> bool:
        """Whether every input tuple is counted exactly once."""
        return all(
            account["in"] == sum(account[kind] for kind in ACCOUNT_KINDS)
            for account in self._accounts()
        )

    def _accounts(self) -> list[dict[str, Any]]:
        return [
            {
                "stream": tally.stream,
                "in": self.tuples.get(tally.stream, 0) + odd,
                "stored": tally.stored,
                "expired": tally.expired,
                "passed": tally.passed,
                "late": tally.late,
                "dead": tally.dead + odd,
                "shed": self.shed.get(tally.stream, 0),
            }
            for tally in self.tallies
            for odd in [self.malformed.get(tally.stream.lower(), 0)]
        ]

    def figures(self) -> dict[str, Any]:
        """The counts as ``metrics`` shows them."""
        return {
            "tuples_in": dict(self.tuples),
            **({"accounts": self._accounts()} if self.tallies else {}),
            "shed": dict(self.shed),
            "late": self.late,
            "dead_letters": self.dead,
        }

    def windows(self) -> dict[str, list[int]]:
        """The tuples in join windows, and the expired ones; empty if not known."""
        joined = [tally for tally in self.tallies if tally.window]
        stored, expired = [one.stored for one in joined], [one.expired for one in joined]
        return {"window_tuples": stored, "expired_tuples": expired} if self.tallies else {}


MAX_READS = 1000
"""The largest number of tries to read counts between two single-tuple pushes: microseconds each."""


class Query(Generic[H]):
    """A handle: drain the results, read the metrics, change or drop the query.

    Draining is safe from any thread, and makes room for a ``push`` that waits in another one.
    """

    def __init__(
        self,
        engine: QueryEngine,
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
        self.here = True
        self.failure: QueryFailed | None = None
        self._last_metrics: dict[str, Any] | None = None
        self._engine = engine
        self._buffer_rows = buffer_rows
        self._shedding = Shedding(buffer_rows, self._buffered, self._total_made) if sheds else None
        self._pressed_at = self._shedding.almost_full if self._shedding else buffer_rows + 1
        self._room = threading.Condition()
        self._results: deque[Result] = deque()
        self._loose: LooseRows | None = None
        self._letters: deque[Letter | Letters] = deque()
        self._waiting_rows = 0
        self._waiting_letters = 0
        self._rows_out = 0
        self._last_position = -1
        self._counts = {"late": 0, "dead": 0}
        self._malformed: dict[str, int] = {}
        self._settled: Balance | None = None
        self._steps = 0
        self._tuples_in: dict[str, int] = {}
        self.pipeline = pipeline

    def __repr__(self) -> str:
        counts = ", ".join(f"{name} {number:,}" for name, number in self._known_counts().items())
        return f"<Query {self.name}: {self.state}, {counts}: {one_line(self.text)}>"

    def _repr_html_(self) -> str:
        counts = self._known_counts()
        why = "" if self.failure is None else html_line(str(self.failure))
        title = f"{'Derived stream' if self.derived else 'Query'} {self.name}: {self.state}"
        table = html_table(tuple(counts), [[f"{number:,}" for number in counts.values()]])
        return f"{html_line(title)}{html_text(self.text)}{table}{why}"

    @property
    def state(self) -> str:
        """``running``; ``failed``, ``dropped``, or ``closed`` with its engine."""
        if self.failure is not None:
            return "failed"
        if self._engine.registry.queries.get(self.name.lower()) is not self:
            return "dropped"
        return "closed" if self._engine.closed else "running"

    def _known_counts(self) -> dict[str, int]:
        """The numbers of tuples in, rows out, and undrained rows and letters; takes no lock."""
        known = (
            self.pipeline.reported_counts() if self._last_metrics is None else self._last_metrics
        )
        own = {"rows_out": self._rows_out, "late": self._counts["late"]}
        own |= {"dead_letters": self._counts["dead"]}
        came = known.get("tuples_in", self._tuples_in)
        return {
            "tuples in": sum(list(came.values())),
            "rows out": known.get("rows_out", own["rows_out"]),
            "undrained": self._waiting_rows,
            "late": known.get("late", own["late"]),
            "dead letters": known.get("dead_letters", own["dead_letters"]),
        }

    @property
    def program(self) -> Program:
        return self.pipeline.program

    @property
    def text(self) -> str:
        """The SQL in force."""
        return self.program.text

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows that it makes from here on."""
        return self.program.schema

    @property
    def undrained(self) -> int:
        """The number of undrained rows and letters."""
        return self._waiting_rows + self._waiting_letters

    # -- draining ---------------------------------------------------------------------------

    def rows(self) -> pa.Table:
        """Take the rows made so far, in order.

        After a change of the select list, the rows of the old columns come first and those of the
        new ones at the next call.
        """
        schemas: list[pa.Schema] = []

        def first_ones() -> int:
            schemas.append(self._results[0].batch.schema if self._results else self.schema)
            same = (result.batch.schema.equals(schemas[0]) for result in self._results)
            return sum(1 for _ in takewhile(bool, same))

        return self._drained(
            first_ones, lambda taken: pa.Table.from_batches([r.batch for r in taken], schemas[0])
        )

    def drain(self) -> list[Result]:
        """Take the rows made so far, with their positions."""
        return self._drained(lambda: len(self._results), list)

    def _drained(self, count: Callable[[], int], make: Callable[[list[Result]], T]) -> T:
        """Take the first ``count()`` results and return ``make`` of them, which is another object.

        If that raises, the results are put back.
        """
        taken: list[Result] = []
        try:
            with self._room:
                self._gather_loose()
                size = count()
                first, rest = (
                    list(islice(self._results, size)),
                    deque(islice(self._results, size, None)),
                )
                rows = sum(result.batch.num_rows for result in first)
                # No call comes between these: a result is taken, or there.
                self._results = rest
                self._waiting_rows -= rows
                taken = first
                self._room.notify_all()
            made = make(taken)
            self._engine._go_on()
            return made
        except BaseException:
            try:
                uninterrupted(lambda: self._put_back(taken))
            except BaseException:  # of a second signal, before the first line of that
                uninterrupted(lambda: self._put_back(taken))
                raise
            raise

    def _put_back(self, taken: list[Result]) -> None:
        with self._room:
            rows = sum(result.batch.num_rows for result in taken)
            self._results.extendleft(reversed(taken))
            self._waiting_rows += rows
            taken.clear()

    def late(self) -> pa.Table:
        """Take the late tuples: stream, position, reason, and the tuple as SQL literals."""
        return self._letter_table("late")

    def dead_letters(self) -> pa.Table:
        """Take the records that could not be used, in the same columns as late tuples."""
        return self._letter_table("dead")

    def shed(self) -> pa.Table:
        """Take the ranges of tuples that admission control has dropped.

        Each row has a stream, the first and last position of tuples that were dropped with none
        admitted between them, and their number.
        """
        return RANGES.empty_table() if self._shedding is None else self._shedding.drain()

    def drain_letters(self, kind: Literal["late", "dead"] | None = None) -> list[Letter]:
        """Take late and dead letters (or those of one kind), by position."""
        return self._drained_letters(kind, lambda letters: letters)

    def _letter_table(self, kind: Literal["late", "dead"]) -> pa.Table:
        return self._drained_letters(
            kind,
            lambda letters: pa.Table.from_batches([letter_batch(letters)]).drop_columns(["kind"]),
        )

    def _drained_letters(self, kind: str | None, make: Callable[[list[Letter]], T]) -> T:
        """Take the letters of a kind and return ``make`` of them; put them back if that raises."""
        taken: list[Letter | Letters] = []
        try:
            with self._room:
                first = [letter for letter in self._letters if kind in (None, letter.kind)]
                rest = deque(x for x in self._letters if kind not in (None, x.kind))
                letters = sum(map(count, first))
                # No call comes between these: a letter is taken, or there.
                self._letters = rest
                self._waiting_letters -= letters
                taken = first
                self._room.notify_all()
            singly = [one for letter in taken for one in written(letter)]
            made = make(sorted(singly, key=lambda letter: letter.position))
            self._engine._go_on()
            return made
        except BaseException:
            try:
                uninterrupted(lambda: self._put_letters_back(taken))
            except BaseException:  # of a second signal, before the first line of that
                uninterrupted(lambda: self._put_letters_back(taken))
                raise
            raise

    def _put_letters_back(self, taken: list[Letter | Letters]) -> None:
        with self._room:
            letters = sum(map(count, taken))
            self._letters.extendleft(reversed(taken))
            self._waiting_letters += letters
            taken.clear()

    # -- filling, by the engine -------------------------------------------------------------

    def _take_run(self, run: Run) -> None:
        if self.derived:
            self._rows_out += len(run)
        elif len(run):
            self._take_result(Result(run.inputs[0], run.positions))

    def _take_result(self, result: Result) -> None:
        with self._room:
            self._gather_loose()
            # No call comes between these, so a signal does not either.
            self._results += (result,)
            self._waiting_rows += result.batch.num_rows
            self._rows_out += result.batch.num_rows
            self._last_position = result.positions[-1]

    def _take_pairs(
        self,
        position: int,
        rows: int,
        values: Sequence[object],
        partners: Sequence[npt.NDArray[np.int64]],
        sources: Sequence[ColumnSource],
    ) -> None:
        """Take the rows of a single-tuple push; see :class:`LooseRows`."""
        with self._room:
            if self._loose is None or self._loose.schema is not self.schema:
                self._gather_loose()
                self._loose = LooseRows(self.schema)
            self._loose.add(position, rows, values, partners, sources)
            # No call comes between the last step of that and these.
            self._rows_out += rows
            self._waiting_rows += rows
            self._last_position = position

    def _gather_loose(self) -> None:
        """Put loose rows into a batch; the caller holds the lock."""
        loose = self._loose
        if loose is not None and loose.count:
            result = Result(*loose.batch())
            # No call comes between these: the rows are in one place.
            self._results += (result,)
            loose.count = 0
            loose.ragged = True

    def _take_letters(self, letters: Iterable[Letter | Letters | MissedTuples]) -> None:
        for letter in letters:
            assert not isinstance(letter, MissedTuples), (
                "tuples are folded here, not before they come"
            )
            with self._room:
                self._letters.append(letter)
                self._waiting_letters += count(letter)
                self._counts[letter.kind] += count(letter)

    def _retire(self) -> None:
        """Release the windows of a dropped query; its last metrics and undrained output stay."""
        self._last_metrics = self.metrics()
        self.pipeline.clear()

    def _begin_step(self) -> None:
        if self._settled is None:
            self._settled = self._balance()

    def _end_step(self) -> None:
        if self.failure is None:
            self._settled = None
            self._steps += 1

    def _count_input(self, stream: str, tuples: int) -> None:
        self._tuples_in[stream] = self._tuples_in.get(stream, 0) + tuples

    def _buffered(self) -> int:
        return max(self._waiting_rows, self._waiting_letters)

    def _total_made(self) -> int:
        return self._rows_out + sum(self._counts.values())

    def _is_full(self) -> bool:
        # A query that sheds lets no push wait: its buffer passes the limit by a few tuples' rows.
        return self._shedding is None and self._buffered() > self._buffer_rows

    def _is_pressed(self) -> bool:
        """Whether a tuple that arrives now must wait, or is shed."""
        return self._buffered() >= self._pressed_at

    def _admitted(self, runs: Mapping[str, Run]) -> Iterable[Mapping[str, Run]]:
        if self._shedding is None:
            return (runs,)
        names = {scan.stream.name.lower(): scan.stream.name for scan in self.program.scans}
        read = {name: run for name, run in runs.items() if name in names}
        return self._shedding.admitted(read, names)

    def _take_dead(self, letters: Sequence[Letter]) -> None:
        if self._shedding is None or not self._shedding.is_shedding():
            for letter in letters:
                stream = letter.stream.lower()
                self._malformed[stream] = self._malformed.get(stream, 0) + 1
            self._take_letters(letters)
            return
        for letter in letters:
            self._count_input(letter.stream, 1)
            self._shedding.drop(letter.stream, np.array([letter.position], np.int64))

    def _wait_for_room(self, seconds: float) -> bool:
        """Wait until the query is drained; False if that takes longer than ``seconds``."""
        until = time.monotonic() + seconds
        with self._room:
            while self._is_full():
                left = until - time.monotonic()
                if left <= 0 or not self._room.wait(left):
                    return not self._is_full()
        return True

    def _full_error(self, seconds: float, taken: int) -> BufferFull:
        """The error of a push that took ``taken`` tuples and then waited in vain for room."""
        return BufferFull(
            f"query {self.name!r} holds {self._waiting_rows} rows and {self._waiting_letters} "
            f"letters that nobody has drained in {seconds:g} seconds; {taken} tuples of this push "
            "were taken",
            f"Call rows(), late() and dead_letters() of {self.name!r}, then push the rest; or "
            "connect with a larger buffer_rows or push_timeout.",
            taken,
        )

    # -- steering ---------------------------------------------------------------------------

    def change(self, sql: str | Program) -> None:
        """Give the query another text or program, exactly here in the input; windows are kept."""
        self._engine.change(self.name, sql)

    def drop(self) -> None:
        """Stop the query. Its undrained results can still be drained."""
        self._engine.drop(self.name)

    @property
    def flow(self) -> FlowChoice:
        """How cores are to share it, as far as it was asked for."""
        return self.program.flow

    def explain(self) -> Explanation:
        """The plan, the program, the kernel and the flow, with the reasons for them.

        And the design and the probe orders of a join of three and more streams, as measured while
        it runs.
        """
        metrics = self.metrics()
        orders = [line for line in metrics.get("probe_orders", ()) if "measured" in line]
        designs = metrics.get("designs", ())
        return Explanation("\n".join((self.explained().text, *designs, *orders)))

    def explained(self) -> ExplanationParts:
        """What :meth:`explain` says, part by part."""
        return self._engine._explain(self.program, self.order, self.kernel, self.flow)

    def metrics(self) -> dict[str, Any]:
        """Counts since the query was installed, and the state of its windows.

        ``accounts`` counts every input tuple exactly once, at any moment: during a step it has the
        counts from before the step.
        """
        if self._last_metrics is not None:
            waiting = {
                "undrained_rows": self._waiting_rows,
                "undrained_letters": self._waiting_letters,
            }
            return {**self._last_metrics, **waiting}
        balance = self._balanced()
        return {
            **balance.figures(),
            "rows_out": self._rows_out,
            **self.pipeline.measures(),
            **balance.windows(),
            "undrained_rows": self._waiting_rows,
            "undrained_letters": self._waiting_letters,
            "failure": None if self.failure is None else str(self.failure),
        }

    def _balanced(self) -> Balance:
        """The tuple counts between two steps, or from before the present step."""
        for _ in range(MAX_READS):
            steps, settled = self._steps, self._settled
            if settled is not None:
                return settled
            found = self._balance()
            if self._settled is None and self._steps == steps and found.is_even:
                break
            time.sleep(0)  # a single tuple is under way in another thread
        return found

    def _balance(self) -> Balance:
        shed = {} if self._shedding is None else dict(self._shedding.counts)
        letters = self._counts["late"], self._counts["dead"]
        tuples, malformed = dict(self._tuples_in), dict(self._malformed)
        return Balance(tuples, malformed, shed, *letters, self.pipeline.tally())
