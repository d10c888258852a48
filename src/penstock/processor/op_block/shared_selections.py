"""Selections of many queries over one stream, evaluated together.

A block with a thousand selections over one stream would compare each tuple a thousand times. Here
their conditions are sets of values (:mod:`penstock.kernels.selection.value_sets`), and each tuple
is looked up among the constants of all queries once (:mod:`penstock.kernels.selection.places`). One
set of a query, of few values, gives its *candidates*: rows at the places of the set, which lie side
by side when the rows are in the order of their places. The query's other sets are compared with
the candidates only. So a run costs a look-up for each tuple and expression, and for each query that
has candidates a small constant and their number.

Why a query gets the rows that its condition alone would select. The condition is the conjunction of
its sets, so a row satisfies it if its places are in all of them; a set's ends are constants of its
expression, and between two neighbours of these no condition tells values apart. Candidates are
taken in the order of arrival: at one place they are in it, and those of several places are sorted.
An expression is evaluated once for all queries, on all rows, as the condition alone would be; its
failures count for each query as often as the query's condition names it.

What queries do with their rows is shared too where it is the same: the rows of queries with one
select list are taken out of the run together and computed together, and each query has its part of
the result by reference. That is exact because a projection makes each row of one row. If an
expression fails in it, each query computes its own part, since each counts its own failures.

A condition that is no conjunction of sets is evaluated by itself. So are the conditions of a few
queries, for which that costs less, and those of a block whose tuples come in segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.blocks.contract import IN, Batch, Block
from penstock.blocks.run import Run
from penstock.blocks.select import SelectBlock, without_idle_columns
from penstock.kernels.expressions.evaluate import evaluate
from penstock.kernels.expressions.vector import Failures, Numbers, Vector
from penstock.kernels.selection.places import (
    Constants,
    Indices,
    Places,
    physical_keys,
    rows_by_place,
)
from penstock.kernels.selection.value_sets import AFTER, ValueSet, terms_of
from penstock.processor.op_block.messages import SharedRows
from penstock.program.isa.block_instructions import BlockInstruction, ProjectColumns, SelectRows
from penstock.sql.expressions import Expression

MOST_TOGETHER = 1 << 16
"""Rows of several queries that are taken out of a run together, about."""
_SORTED_SHARE = 16
"""Candidates of several places are sorted if they are at most the n-th part of the rows."""


class EncodedSet:
    """A query's set of values of an expression, as arrays.

    Parameters
    ----------
    expression
        The expression.
    values
        The set.
    times
        How often the query's condition evaluates the expression.
    """

    def __init__(self, expression: Expression, values: ValueSet, times: int) -> None:
        self.expression = expression
        self.times = times
        self.width = values.width
        ends = list(values.ends())
        self.is_empty = not ends
        self.values = physical_keys([key for key, _ in ends], expression.type)
        self.kinds = np.array([kind for _, kind in ends], np.int64)
        keys = [cut.key for cut in values.cuts]
        self.is_separate = values.lowest == values.highest and keys[::2] == keys[1::2]
        """Whether it is single values, or all but single values."""


class Tail:
    """What queries do with the rows that their selections keep, the same for all of them.

    Parameters
    ----------
    columns
        Those that are kept of a row; None: all.
    blocks
        Projections, programmed.
    """

    def __init__(self, columns: tuple[int, ...] | None, blocks: Sequence[Block]) -> None:
        self.columns = columns
        self._blocks = blocks

    def through(self, first: int, after: int, run: Run) -> Run | None:
        """The rows of several queries after the projections; None if an expression has failed."""
        before = self._failures
        for block in self._blocks:
            [(_, made)] = block.step(IN, Batch(first, after, (run,)))
            run = made.run
        return run if self._failures == before else None

    @property
    def _failures(self) -> int:
        return sum(block.measures()["expression_failures"] for block in self._blocks)


@dataclass(eq=False)
class Selection:
    """A query's part in a block, if its selection can be shared.

    Parameters
    ----------
    query
        The number of the query.
    block
        The block of its selection, which counts failures.
    sets
        The conjunction that its condition is.
    tail
        What comes after its selection.
    feeds_stream
        Whether its rows are a stream that other queries may read.
    """

    query: int
    block: SelectBlock
    sets: tuple[EncodedSet, ...]
    tail: Tail
    feeds_stream: bool

    @cached_property
    def is_empty(self) -> bool:
        """Whether no row can satisfy it."""
        return any(one.is_empty for one in self.sets)

    @cached_property
    def narrowest(self) -> EncodedSet:
        """The set that gives its candidates."""
        return min(self.sets, key=lambda one: one.width)


@dataclass(frozen=True)
class Selected:
    """Rows of several queries, one query's after another's, before their tail.

    Parameters
    ----------
    selections
        The queries.
    bounds
        Where the rows of each begin, and the end.
    run
        The rows.
    """

    selections: Sequence[Selection]
    bounds: Sequence[int]
    run: Run

    @property
    def tail(self) -> Tail:
        """What comes after their selections."""
        return self.selections[0].tail

    @property
    def queries(self) -> list[int]:
        """The numbers of the queries."""
        return [one.query for one in self.selections]

    @property
    def feeds_streams(self) -> bool:
        """Whether the rows of one are a stream."""
        return any(one.feeds_stream for one in self.selections)

    def each(self) -> Iterator[tuple[int, Run]]:
        """Every query with its rows, by reference."""
        return SharedRows(self.queries, self.bounds, self.run).each()


def sets_of(bodies: Sequence[BlockInstruction]) -> tuple[EncodedSet, ...] | None:
    """The sets of a query that selects and projects; None if its selection cannot be shared."""
    first, *others = bodies
    if not isinstance(first, SelectRows):
        return None
    if not all(isinstance(one, ProjectColumns) for one in others):
        return None
    return tuple([EncodedSet(*term) for term in terms_of(first.condition) or ()]) or None


# -- the constants of an expression ---------------------------------------------------------------


@dataclass(eq=False)
class _Asked:
    """An expression that queries compare with constants.

    Parameters
    ----------
    expression
        The expression.
    sets
        The sets of all queries.
    evaluated_for
        The selections that evaluate it, and how often each does.
    members
        The queries whose candidates it gives.
    """

    expression: Expression
    sets: list[EncodedSet] = field(default_factory=list)
    evaluated_for: list[tuple[SelectBlock, int]] = field(default_factory=list)
    members: list[Selection] = field(default_factory=list)

    @cached_property
    def constants(self) -> Constants:
        """The constants of all sets."""
        values, kinds = _ends(self.sets)
        separate = all(one.is_separate for one in self.sets)
        return Constants(np.unique(values[kinds <= AFTER]), self.expression.type, separate)

    @cached_property
    def bounds(self) -> dict[EncodedSet, Indices]:
        """The places where the intervals of each set begin and end, by turns."""
        found = self.constants.bounds(*_ends(self.sets))
        stops = np.cumsum([len(one.kinds) for one in self.sets]).tolist()
        starts = [0, *stops[:-1]]
        return {one: found[i:j] for one, i, j in zip(self.sets, starts, stops, strict=True)}

    def arrange(self) -> None:
        """Bring the queries in the order in which their rows are taken."""
        tails = {id(one.tail): number for number, one in enumerate(self.members)}
        self.members.sort(key=lambda one: (tails[id(one.tail)], int(self.bounds[one.narrowest][0])))

    @cached_property
    def intervals(self) -> tuple[Indices, Indices, Indices]:
        """Of the members' narrowest sets: where intervals begin, end, and which are the first."""
        own = [self.bounds[one.narrowest] for one in self.members]
        bounds = np.concatenate(own)
        return bounds[0::2], bounds[1::2], np.cumsum([0, *[len(one) // 2 for one in own]])


def _ends(sets: Sequence[EncodedSet]) -> tuple[Numbers, npt.NDArray[np.int64]]:
    """The ends of sets, one set's after another's: values and kinds."""
    return (
        np.concatenate([one.values for one in sets]),
        np.concatenate([one.kinds for one in sets]),
    )


class SharedSelections:
    """The selections of a block over one stream that are evaluated together.

    Parameters
    ----------
    stream
        The number of the stream.
    selections
        Those of the queries.
    """

    def __init__(self, stream: int, selections: Sequence[Selection]) -> None:
        self.stream = stream
        self.queries = [one.query for one in selections]
        self._selections = selections
        asked: dict[Expression, _Asked] = {}
        checks: list[tuple[Selection, _Asked, EncodedSet]] = []
        for one in selections:
            for values in one.sets:
                found = asked.get(values.expression)
                if found is None:
                    found = asked[values.expression] = _Asked(values.expression)
                found.sets.append(values)
                found.evaluated_for.append((one.block, values.times))
                if one.is_empty:
                    continue
                if values is one.narrowest:
                    found.members.append(one)
                else:
                    checks.append((one, found, values))
        self._asked = list(asked.values())
        for found in self._asked:
            found.arrange()
        self._checks: _Checks = {}
        for one, found, values in checks:
            self._checks.setdefault(one.query, []).append((found, found.bounds[values]))

    def evaluate(self, run: Run) -> Iterator[Selected]:
        """The rows of each query that has any; of each query, if there are controls.

        Expressions are evaluated before this returns.
        """
        evaluation = _Evaluation(run, self._asked)
        for asked in self._asked:
            failures = evaluation.failures[asked]
            if failures:
                for block, times in asked.evaluated_for:
                    block.count_failures(failures * times)
        return _together(run, self._rows(run, evaluation))

    def _rows(
        self, run: Run, evaluation: _Evaluation
    ) -> Iterator[tuple[Selection, Indices | None]]:
        """The rows of queries, in the order of arrival; None: all rows."""
        every = bool(run.controls)
        if every:
            yield from ((one, _NO_ROWS) for one in self._selections if one.is_empty)
        for asked in self._asked:
            if asked.members:
                yield from evaluation.of_members(asked, self._checks, every)


_NO_ROWS = np.empty(0, np.int64)
_Checks = dict[int, list[tuple[_Asked, Indices]]]
"""By query, its sets that do not give its candidates, each as the ends of intervals of places."""


class _Evaluation:
    """The expressions of queries on a run.

    Parameters
    ----------
    run
        The run.
    those
        What queries compare with constants.
    """

    def __init__(self, run: Run, those: Sequence[_Asked]) -> None:
        self._run = run
        self._vectors: dict[_Asked, Vector] = {}
        self._places: dict[_Asked, Places] = {}
        self.failures: dict[_Asked, int] = {}
        for asked in those:
            failures = Failures()
            if len(run):
                self._vectors[asked] = evaluate(asked.expression, run.inputs, failures)
            self.failures[asked] = failures.count

    def _places_of(self, asked: _Asked) -> Places:
        found = self._places.get(asked)
        if found is None:
            found = self._places[asked] = asked.constants.places(self._vectors[asked])
        return found

    def of_members(
        self, asked: _Asked, checks: _Checks, every: bool
    ) -> Iterator[tuple[Selection, Indices | None]]:
        """The rows of the queries whose candidates an expression gives."""
        if not len(self._run):
            yield from ((one, _NO_ROWS) for one in asked.members)
            return
        places = self._places_of(asked)
        order, starts = rows_by_place(places, asked.constants.count)
        begins, ends, first = asked.intervals
        starts_of, stops_of = starts[begins], starts[ends]
        counts = np.add.reduceat(stops_of - starts_of, first[:-1])
        one_place = (first[1:] - first[:-1] == 1) & (ends - begins == 1)[first[:-1]]
        which = np.arange(len(counts)) if every else np.flatnonzero(counts)
        at = first[which]
        found = zip(
            which.tolist(),
            one_place[which].tolist(),
            starts_of[at].tolist(),
            stops_of[at].tolist(),
            strict=True,
        )
        for i, is_one_place, start, stop in found:
            one = asked.members[i]
            rows: Indices | None
            if is_one_place:
                rows = order[start:stop]
            else:
                parts = slice(first[i], first[i + 1])
                rows = self._in_order(places, begins[parts], ends[parts], order, starts)
            if len(one.sets) > 1:
                rows = self._checked(checks[one.query], rows)
                if not every and rows is not None and not len(rows):
                    continue
            yield one, rows

    def _in_order(
        self, places: Places, begins: Indices, ends: Indices, order: Indices, starts: Indices
    ) -> Indices | None:
        """The rows at the places of some intervals, in the order of arrival; None: all rows."""
        pairs = list(zip(starts[begins].tolist(), starts[ends].tolist(), strict=True))
        count = sum(stop - start for start, stop in pairs)
        if count == len(places):
            return None
        if count * _SORTED_SHARE <= len(places):
            return np.sort(np.concatenate([order[start:stop] for start, stop in pairs]))
        inside = np.zeros(len(starts) - 1, np.bool_)
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            inside[begin:end] = True
        return np.flatnonzero(inside.take(places))

    def _checked(
        self, checks: Sequence[tuple[_Asked, Indices]], rows: Indices | None
    ) -> Indices | None:
        """The candidates of a query that are in its other sets too; None: all rows."""
        for asked, bounds in checks:
            if rows is not None and not len(rows):
                break
            places = self._places_of(asked)
            among = places if rows is None else places.take(rows)
            # A place is in an interval if an odd number of ends are not behind it.
            passed = np.flatnonzero(np.searchsorted(bounds, among, "right") & 1)
            if len(passed) < len(among):
                rows = passed if rows is None else rows.take(passed)
        return rows


def _together(run: Run, those: Iterator[tuple[Selection, Indices | None]]) -> Iterator[Selected]:
    """Take the rows of queries out of the run, several queries with one tail at once."""
    selections: list[Selection] = []
    rows: list[Indices] = []
    count = 0
    for one, own in those:
        if selections and (
            own is None or count >= MOST_TOGETHER or one.tail is not selections[0].tail
        ):
            yield _selected_rows(run, selections, rows)
            selections, rows, count = [], [], 0
        if own is None:
            yield Selected([one], [0, len(run)], without_idle_columns(run, one.tail.columns))
        else:
            selections.append(one)
            rows.append(own)
            count += len(own)
    if selections:
        yield _selected_rows(run, selections, rows)


def _selected_rows(run: Run, selections: Sequence[Selection], rows: Sequence[Indices]) -> Selected:
    bounds = np.cumsum([0, *map(len, rows)]).tolist()
    used = without_idle_columns(run, selections[0].tail.columns)
    return Selected(selections, bounds, used.take(np.concatenate(rows)))
