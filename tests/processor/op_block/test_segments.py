"""Segments: the rows of the whole condition, whatever the port, and what does not fit in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effort import examples

from penstock.blocks.contract import OUT, Batch, program
from penstock.blocks.run import Run
from penstock.blocks.select import SelectBlock
from penstock.errors import InputError
from penstock.flows.chain_as_published.controller import Controller
from penstock.kernels.expressions.vector import Failures
from penstock.processor.op_block.segments import (
    SegmentedSelection,
    segment_condition,
    segmented,
)
from penstock.program.isa.block_instructions import SelectRows
from penstock.program.isa.words.layout import WordLayout
from penstock.sql.expressions import TRUE, Call, Column, Expression, Literal, walk

BOOL, INT32, INT64, DOUBLE, STRING = pa.bool_(), pa.int32(), pa.int64(), pa.float64(), pa.string()
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    BOOL: st.booleans(),
    INT32: st.integers(-2, 2),
    INT64: st.integers(-2, 2),
    DOUBLE: st.sampled_from([-1.0, 0.0, -0.0, 0.5, math.nan, math.inf]),
    STRING: st.sampled_from(["", "a", "b"]),
}
PORTS = [128, 192, 256, 1024]


def call(op: str, *args: Expression) -> Call:
    return Call(op, args, BOOL)


@st.composite
def literals(draw: st.DrawFn, columns: Sequence[Column]) -> Expression:
    """A comparison with a constant or another column, a test for NULL, or a division."""
    column = draw(st.sampled_from(columns))
    kind = draw(st.sampled_from(["constant", "constant", "constant", "column", "null", "div"]))
    operator = draw(st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]))
    constant = Literal(draw(VALUES[column.type]), column.type)
    if kind == "null":
        return call("is_null", column)
    if kind == "column":
        others = [one for one in columns if one.type == column.type]
        return call(operator, column, draw(st.sampled_from(others)))
    if kind == "div" and column.type == INT64:
        return call(operator, Call("div", (Literal(4, INT64), column), INT64), constant)
    return call(operator, column, constant)


def conditions(columns: Sequence[Column]) -> st.SearchStrategy[Expression]:
    def grown(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        pair = st.tuples(st.sampled_from(["and", "or", "and"]), parts, parts)
        return parts.map(lambda part: call("not", part)) | pair.map(lambda made: call(*made))

    return st.just(TRUE) | st.recursive(literals(columns), grown, max_leaves=6)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[pa.RecordBatch], list[Column]]:
    """Rows with one side or two, and their columns."""
    rows, columns, sides = draw(st.integers(0, 8)), [], []
    for side in range(draw(st.integers(1, 2))):
        kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=6))
        arrays = [
            pa.array(draw(st.lists(st.none() | VALUES[kind], min_size=rows, max_size=rows)), kind)
            for kind in kinds
        ]
        names = [f"c{index}" for index in range(len(kinds))]
        sides.append(pa.RecordBatch.from_arrays(arrays, names=names))
        columns += [Column(side, index, names[index], kind) for index, kind in enumerate(kinds)]
    return sides, columns


def selected(condition: Expression, inputs: Sequence[pa.RecordBatch]) -> tuple[list[int], int]:
    """The places of the rows that a selection keeps, and how many expressions failed."""
    block = SelectBlock(0)
    program(block, SelectRows(0, 1, condition))
    run = Run(tuple(inputs), np.arange(inputs[0].num_rows))
    [(port, message)] = block.step("in", Batch(0, len(run), (run,)))
    assert port == OUT
    return message.run.positions.tolist(), block.measures()["expression_failures"]


def leaves(condition: Expression) -> list[Expression]:
    """The conditions under AND, OR and NOT."""
    if isinstance(condition, Call) and condition.op in ("and", "or", "not"):
        return [leaf for arg in condition.args for leaf in leaves(arg)]
    return [] if condition == TRUE else [condition]


def spread(condition: Expression, widths: WordLayout, schemas: Sequence[pa.Schema]) -> bool:
    """Whether a leaf reads columns of several segments."""
    groups = [set(segment.columns) for segment in segmented(schemas, widths)]
    read = [
        {(one.side, one.index) for one in walk(leaf) if isinstance(one, Column)}
        for leaf in leaves(condition)
    ]
    return not all(any(columns <= group for group in groups) for columns in read)


@examples(400)
@given(st.data())
def test_the_rows_are_those_of_a_selection_of_whole_tuples(data: st.DataObject) -> None:
    inputs, columns = data.draw(tables())
    condition = data.draw(conditions(columns))
    widths = WordLayout(port=data.draw(st.sampled_from(PORTS)))
    schemas = [batch.schema for batch in inputs]
    segments = segmented(schemas, widths)
    if len(segments) > 1 and spread(condition, widths, schemas):
        with pytest.raises(InputError, match="a block has one segment of a tuple at a time"):
            segment_condition(condition, segments)
        return
    failures = Failures()
    selection = SegmentedSelection(condition, widths, schemas)
    rows, failed = selected(condition, inputs)
    assert np.flatnonzero(selection.select(inputs, failures)).tolist() == rows
    # A literal that is written twice is evaluated once.
    alike = len(set(leaves(condition))) < len(leaves(condition))
    assert failures.count == failed or (alike and failures.count < failed)


@examples(100)
@given(st.data())
def test_segments_have_every_column_once_and_fit_the_port(data: st.DataObject) -> None:
    inputs, columns = data.draw(tables())
    widths = WordLayout(
        port=data.draw(st.sampled_from(PORTS)), value=data.draw(st.sampled_from([32, 64]))
    )
    pair = widths.attribute + widths.value
    bits = {BOOL: 1, INT32: 32, INT64: 64, DOUBLE: 64, STRING: 32}
    schemas = [batch.schema for batch in inputs]
    made = segmented(schemas, widths)
    places = [place for segment in made for place in segment.columns]
    assert places == [(column.side, column.index) for column in columns]
    sizes = [
        sum(
            -(-bits[schemas[side].field(index).type] // widths.value) * pair
            for side, index in segment.columns
        )
        for segment in made
    ]
    assert all(0 < size <= widths.port for size in sizes)
    # With columns of one pair each, only the last one may have room left.
    if widths.value == 64:
        assert all(size > widths.port - pair for size in sizes[:-1])


# -- the example of the publication -------------------------------------------------------------

CUSTOMER = pa.schema({"id": INT32, "age": INT32})
GROWN = pa.schema({"id": INT32, "age": INT32, "height": INT32, "weight": INT32})
PORT = WordLayout(port=128)
"""Two attribute-value pairs of 64 bits."""
ID, AGE, HEIGHT, WEIGHT = (Column(0, n, GROWN.names[n], INT32) for n in range(4))


def number(value: int) -> Literal:
    return Literal(value, INT32)


OLDER = call("gt", AGE, number(25))
SMALLER = call("lt", HEIGHT, number(180))
BEFORE = pa.record_batch({"id": [1, 2, 3], "age": [25, 26, None]}, CUSTOMER)
AFTER = pa.record_batch(
    {
        "id": [4, 5, 6, 7],
        "age": [30, 30, 20, 30],
        "height": [170, 190, 170, None],
        "weight": [70, 70, 70, 70],
    },
    GROWN,
)


def kept(selection: SegmentedSelection, batch: pa.RecordBatch) -> list[int]:
    ids = batch.column(0).to_pylist()
    return [ids[place] for place in np.flatnonzero(selection.select([batch], Failures()))]


def test_a_schema_that_grows_while_a_selection_runs() -> None:
    """Section 4.4: Height and Weight are added, and then the query asks for Height too."""
    selection = SegmentedSelection(OLDER, PORT, [CUSTOMER])
    assert [segment.columns for segment in selection.query.segments] == [((0, 0), (0, 1))]
    assert kept(selection, BEFORE) == [2]
    first = selection.query
    assert kept(selection, AFTER) == [4, 5, 7]
    assert selection.query.segments == (*first.segments, *segmented([GROWN], PORT)[1:])
    # The first segment is as it was, and the query has nothing to do on the second one.
    assert selection.query.selections == (first.selections[0], ())
    both = SegmentedSelection(call("and", OLDER, SMALLER), PORT, [GROWN])
    assert [[str(one.literal) for one in of] for of in both.query.selections] == [
        ["(age > 25)"],
        ["(height < 180)"],
    ]
    assert both.query.selections[0] == first.selections[0]
    assert kept(both, AFTER) == [4]


def test_the_states_of_the_processing_unit_segment_by_segment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entered: list[str] = []
    enter = Controller.enter

    def noted(controller: Controller, state: str) -> None:
        enter(controller, state)
        entered.append(state)

    selection = SegmentedSelection(call("and", OLDER, SMALLER), PORT, [GROWN])
    monkeypatch.setattr(Controller, "enter", noted)
    selection.select([AFTER], Failures())
    one_segment = [
        *("Opr-Addr", "Opr-Read", "Opr-Sec-Read", "Tuples-Addr", "Execution"),
        *("Trans First-Chunk", "Exe-Wait", "Update-Addr-Ptrs"),
        *("Tuples-Addr", "Execution", "Update-Addr-Ptrs", "Exe-Idle"),
    ]
    assert entered == one_segment * 2


# -- clauses ------------------------------------------------------------------------------------


def literals_by_segment(condition: Expression) -> list[list[tuple[str, tuple[int, ...]]]]:
    query = segment_condition(condition, segmented([GROWN], PORT))
    return [[(str(one.literal), one.clauses) for one in of] for of in query.selections]


def test_a_clause_over_several_segments_has_literals_in_each() -> None:
    assert literals_by_segment(call("or", SMALLER, OLDER)) == [
        [("(age > 25)", (0,))],
        [("(height < 180)", (0,))],
    ]


def test_or_is_distributed_over_and_and_a_literal_counts_for_several_clauses() -> None:
    named = call("eq", ID, number(7))
    assert literals_by_segment(call("or", call("and", OLDER, SMALLER), named)) == [
        [("(age > 25)", (0,)), ("(id = 7)", (0, 1))],
        [("(height < 180)", (1,))],
    ]


def test_not_is_moved_inwards() -> None:
    twice = call("not", call("not", OLDER))
    assert literals_by_segment(twice) == [[("(age > 25)", (0,))], []]
    assert literals_by_segment(call("not", call("or", OLDER, call("not", SMALLER)))) == [
        [("not((age > 25))", (0,))],
        [("(height < 180)", (1,))],
    ]


def test_a_constant_is_evaluated_on_the_first_segment() -> None:
    assert literals_by_segment(call("or", Literal(None, BOOL), SMALLER)) == [
        [("NULL", (0,))],
        [("(height < 180)", (0,))],
    ]


# -- refusals -----------------------------------------------------------------------------------


def refusal(condition: Expression, widths: WordLayout = PORT) -> str:
    with pytest.raises(InputError) as error:
        segment_condition(condition, segmented([GROWN], widths))
    return str(error.value)


def test_a_comparison_across_segments_is_refused() -> None:
    assert refusal(call("and", OLDER, call("lt", WEIGHT, AGE))) == (
        "the condition (weight < age) compares age in segment 1 and weight in segment 2, and a "
        "block has one segment of a tuple at a time\n"
        "Put these columns side by side in CREATE STREAM, so that a segment has them all, or "
        "choose a wider port."
    )
    # Side by side, or through a port as wide as the tuples, it is not.
    assert segment_condition(call("lt", HEIGHT, WEIGHT), segmented([GROWN], PORT)).clauses == 1
    whole = segmented([GROWN], WordLayout(port=256))
    assert segment_condition(call("lt", WEIGHT, AGE), whole).clauses == 1


def test_a_condition_that_has_too_many_clauses_is_refused() -> None:
    parts = [call("and", call("gt", AGE, number(n)), SMALLER) for n in range(6)]
    condition = parts[0]
    for part in parts[1:]:
        condition = call("or", condition, part)
    assert refusal(condition) == (
        f"the condition {condition} has more than 32 comparisons if it is written in clauses, as "
        "segments need it\n"
        "Write it as a conjunction of disjunctions, or choose a port that whole tuples pass."
    )


def test_a_column_that_does_not_fit_the_port_is_refused() -> None:
    with pytest.raises(InputError) as error:
        segmented([pa.schema({"id": INT32, "price": pa.decimal128(38, 2)})], PORT)
    assert str(error.value) == (
        "column price (decimal128(38, 2)) takes 4 attribute-value pairs, and a port of 128 bits "
        "has room for 2\n"
        "Choose a port of at least 256 bits, or a wider value."
    )
