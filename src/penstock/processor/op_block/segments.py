"""Segment-at-a-time: tuples that are wider than a port (Najafi 2019 §4.3, §4.4).

A port passes a fixed number of bits. A wider tuple goes in segments, one after another, and the
software segments the query: a block evaluates on each segment the part of the query that is about
it, and the Filter Unit puts the answers together. Here a segment is a group of columns of a run of
tuples, so that nothing is done per tuple and segment.

Why the rows are those of the whole condition. A condition is a conjunction of clauses, a clause a
disjunction of literals, and each literal reads columns of one segment, in which it is evaluated as
it would be on the whole tuple. SQL keeps a row if the condition is true, and a conjunction is true
if all of its terms are, a disjunction if any is, whatever is unknown of the others; NOT in front of
either is moved inwards, and OR distributed over AND, which three-valued logic allows.

A schema that grows. Segments are filled in the order of the columns, and new columns come at the
end. So the segments that there are keep their columns, but for the last one, which takes new ones
while it has room; a query that does not name the new columns has nothing to do on their segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.blocks.contract import BlockId
from penstock.blocks.select import SelectBlock
from penstock.errors import InputError
from penstock.flows.chain_as_published.processing_unit import ProcessingUnit
from penstock.kernels.expressions.evaluate import select
from penstock.kernels.expressions.vector import Failures, Mask
from penstock.processor.op_block.filter_unit import FilterUnit
from penstock.program.isa.words.clauses import MOST_DISTRIBUTED, literals_of
from penstock.program.isa.words.layout import WordLayout
from penstock.sql.expressions import (
    Call,
    Column,
    Expression,
    chain,
    children,
    rebuild,
    walk,
)
from penstock.streams.batches import only
from penstock.streams.display import counted, listed

Place = tuple[int, int]
"""A column: the side of the rows that it is on, and its index there."""


@dataclass(frozen=True)
class Segment:
    """A group of columns that pass a port together, in the order of the schema."""

    columns: tuple[Place, ...]


@dataclass(frozen=True)
class LiteralOnSegment:
    """A literal of the query on one segment, which counts for some clauses.

    Its instruction has three chunks: attribute, condition, and value. ``failures`` counts the
    failures of the expression.
    """

    literal: Expression
    clauses: tuple[int, ...]
    chunks: int = 3
    result_chunks: int = 1

    def execute(
        self, run: tuple[Sequence[pa.RecordBatch], Failures], opposite: object
    ) -> Iterator[tuple[tuple[int, ...], Mask]]:
        """The clauses that the literal is in, and for which tuples it is true."""
        yield self.clauses, select(run[0], self.literal, run[1])


# -- the query and the tuples in segments ---------------------------------------------------------


def segmented(schemas: Sequence[pa.Schema], widths: WordLayout) -> tuple[Segment, ...]:
    """The segments of tuples, which have a schema for each side of their rows.

    A column takes an attribute-value pair, and as many more as its values are wider than the value
    of a pair. Texts are codes, which one pair has room for. A column is not divided.

    >>> customer = pa.schema({"id": pa.int32(), "age": pa.int32(), "height": pa.int32()})
    >>> [segment.columns for segment in segmented([customer], WordLayout(port=128))]
    [((0, 0), (0, 1)), ((0, 2),)]
    """
    room = widths.port // (widths.attribute + widths.value)
    made: list[list[Place]] = []
    left = 0
    for side, schema in enumerate(schemas):
        for index, column in enumerate(schema):
            pairs = _pairs(column.type, widths)
            if pairs > room:
                raise InputError(
                    f"column {column.name} ({column.type}) takes "
                    f"{counted(pairs, 'attribute-value pair')}, and a port of {widths.port} bits "
                    f"has room for {room}",
                    "Choose a port of at least "
                    f"{pairs * (widths.attribute + widths.value)} bits, or a wider value.",
                )
            if pairs > left:
                made.append([])
                left = room
            made[-1].append((side, index))
            left -= pairs
    return tuple(Segment(tuple(columns)) for columns in made) or (Segment(()),)


def _pairs(kind: pa.DataType, widths: WordLayout) -> int:
    """How many attribute-value pairs a column takes."""
    try:
        bits = kind.bit_width
    except ValueError:  # of values that have no fixed width
        return 1
    return max(1, -(-bits // widths.value))


@dataclass(frozen=True)
class SegmentedQuery:
    """A condition as blocks evaluate it: the selections on each segment, and how many clauses."""

    segments: tuple[Segment, ...]
    selections: tuple[tuple[LiteralOnSegment, ...], ...]
    clauses: int


def segment_condition(condition: Expression, segments: Sequence[Segment]) -> SegmentedQuery:
    """Divide a condition among segments. Every literal is evaluated once, on its segment."""
    if len(segments) == 1:
        clauses: tuple[tuple[Expression, ...], ...] | None = ((condition,),)
    else:
        clauses = literals_of(_negations_inward(condition))
    if clauses is None:
        raise InputError(
            f"the condition {condition} has more than {MOST_DISTRIBUTED} comparisons if it is "
            "written in clauses, as segments need it",
            "Write it as a conjunction of disjunctions, or choose a port that whole tuples pass.",
        )
    where = {place: number for number, one in enumerate(segments) for place in one.columns}
    found: list[dict[Expression, list[int]]] = [{} for _ in segments]
    for number, clause in enumerate(clauses):
        for literal in clause:
            numbers = found[_segment_of(literal, where)].setdefault(literal, [])
            if number not in numbers:
                numbers.append(number)
    selections = tuple(
        tuple(
            LiteralOnSegment(_on_segment(literal, segment), tuple(numbers))
            for literal, numbers in literals.items()
        )
        for segment, literals in zip(segments, found, strict=True)
    )
    return SegmentedQuery(tuple(segments), selections, len(clauses))


def _negations_inward(condition: Expression) -> Expression:
    """NOT of AND and OR moved to their terms; from the leaves up, without recursion."""
    known: dict[tuple[int, bool], Expression] = {}
    waiting = [(condition, False)]
    while waiting:
        node, negated = waiting[-1]
        if isinstance(node, Call) and node.op in ("and", "or", "not"):
            below = [(one, negated != (node.op == "not")) for one in children(node)]
            rest = [(one, sign) for one, sign in below if (id(one), sign) not in known]
            if rest:
                waiting += reversed(rest)
                continue
            made = tuple(known[id(one), sign] for one, sign in below)
            if node.op == "not":
                [known[id(node), negated]] = made
            else:
                other = "or" if node.op == "and" else "and"
                known[id(node), negated] = chain(other if negated else node.op, made)
        else:
            known[id(node), negated] = Call("not", (node,), pa.bool_()) if negated else node
        waiting.pop()
    return known[id(condition), False]


def _segment_of(literal: Expression, where: dict[Place, int]) -> int:
    """The segment that a literal reads; a constant is evaluated on the first one."""
    read = {
        (column.side, column.index): column
        for column in walk(literal)
        if isinstance(column, Column)
    }
    numbers = sorted({where[place] for place in read})
    if len(numbers) > 1:
        names = [
            f"{column} in segment {where[place] + 1}" for place, column in sorted(read.items())
        ]
        raise InputError(
            f"the condition {literal} compares {listed(names)}, and a block has one segment of a "
            "tuple at a time",
            "Put these columns side by side in CREATE STREAM, so that a segment has them all, or "
            "choose a wider port.",
        )
    return numbers[0] if numbers else 0


def _on_segment(expression: Expression, segment: Segment) -> Expression:
    """The expression with columns by their place in the segment."""
    if isinstance(expression, Column):
        place = segment.columns.index((expression.side, expression.index))
        return replace(expression, side=0, index=place)
    return rebuild(expression, lambda child: _on_segment(child, segment))


# -- at work --------------------------------------------------------------------------------------


class SegmentedSelection:
    """A selection of a block whose port is narrower than the tuples.

    Parameters
    ----------
    condition
        What tuples have to satisfy.
    widths
        Those of the port, and of the pairs that pass it.
    schemas
        Of the tuples, one for each side of their rows; wider tuples may come later.
    """

    def __init__(
        self, condition: Expression, widths: WordLayout, schemas: Sequence[pa.Schema]
    ) -> None:
        self._condition = condition
        self._widths = widths
        self._processing = ProcessingUnit()
        self._program(tuple(schemas))

    def _program(self, schemas: tuple[pa.Schema, ...]) -> None:
        segments = segmented(schemas, self._widths)
        self.query = segment_condition(self._condition, segments)
        self._schemas = schemas
        self._filter = FilterUnit(len(segments), self.query.clauses)

    def select(self, inputs: Sequence[pa.RecordBatch], failures: Failures) -> Mask:
        """Which tuples of a run pass, segment after segment."""
        schemas = tuple(batch.schema for batch in inputs)
        if schemas != self._schemas:
            self._program(schemas)
        query, passed = self.query, None
        self._filter.begin(inputs[0].num_rows)
        for number, selections in enumerate(query.selections):
            run = ([_columns(inputs, query.segments[number])], failures)
            results = self._processing.process(selections, run, None)
            passed = self._filter.take(number, results)
        assert passed is not None, "the last segment has come"
        return passed


def segmented_select(number: BlockId, widths: WordLayout) -> SelectBlock:
    """A block of a query that selects segment after segment."""
    known: list[tuple[Expression, SegmentedSelection]] = []

    def evaluate(
        inputs: Sequence[pa.RecordBatch], condition: Expression, failures: Failures
    ) -> Mask:
        if not known or known[0][0] is not condition:
            schemas = [batch.schema for batch in inputs]
            known[:] = [(condition, SegmentedSelection(condition, widths, schemas))]
        return known[0][1].select(inputs, failures)

    return SelectBlock(number, evaluate)


def _columns(inputs: Sequence[pa.RecordBatch], segment: Segment) -> pa.RecordBatch:
    """The columns of a segment, as they are."""
    if len(inputs) == 1 or not segment.columns:
        return only(inputs[0], tuple(index for _, index in segment.columns))
    arrays = [inputs[side].column(index) for side, index in segment.columns]
    return pa.RecordBatch.from_arrays(arrays, names=[str(n) for n in range(len(arrays))])
