"""The encoding of programs: round trips, identity, damages, and the page that describes it."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from tests.campaigns import programs as campaign
from tests.programs import SCRIPTS, compiled, conformance, programs_in
from tests.random_aggregates import aggregate_scripts
from tests.random_scripts import Q, R, S, scripts
from tests.steps import Step

import penstock as ps
from penstock.errors import PenstockError, ProgramError
from penstock.program.compile.compiler import compile_plan
from penstock.program.isa.block_instructions import Program, ProjectColumns, ScanStream
from penstock.program.isa.document import page
from penstock.program.isa.encoding import from_json, to_json
from penstock.program.isa.flow import FlowChoice
from penstock.program.isa.instructions import (
    CreateStream,
    Derive,
    Drop,
    Install,
    Instruction,
    Reset,
)
from penstock.program.isa.table import SENT
from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.query import bind
from penstock.sql.expressions import Call, Cast, Column, Expression, Literal
from penstock.sql.parse.parser import parse_query
from penstock.sql.plan import Output
from penstock.streams.schema import Stream

T = Stream.of(
    "T",
    pa.schema(
        {
            "b": pa.bool_(),
            "i": pa.int64(),
            "f": pa.float32(),
            "d": pa.decimal128(12, 2),
            "day": pa.date32(),
            "t": pa.timestamp("ms", "Europe/Berlin"),
            "s": pa.string(),
            "y": pa.binary(),
        }
    ),
    time="t",
    bounded=True,
    max_lead=Fraction(3, 2),
)


def compile_text(text: str, *streams: Stream) -> Program:
    catalog = Catalog(streams or (T, R, S), windows_required=False)
    return compile_plan(bind(parse_query(text), catalog))


def check_round_trip(sent: Program | Instruction) -> None:
    text = to_json(sent)
    again = from_json(text)
    assert again == sent
    assert str(again) == str(sent)
    assert to_json(again) == text
    for one in programs_in([sent]) if not isinstance(sent, Program) else [sent]:
        assert from_json(one.to_json()).digest == one.digest


# -- round trips ----------------------------------------------------------------------------


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_instruction_of_a_conformance_script_is_decoded_as_it_was(path: Path) -> None:
    instructions = conformance()[path.stem]
    assert programs_in(instructions)
    for instruction in instructions:
        check_round_trip(instruction)


def instructions_in(steps: list[Step], streams: tuple[Stream, ...]) -> list[Instruction]:
    made: list[Instruction] = [CreateStream(stream) for stream in streams]
    for step in steps:
        if step.verb == "derive":
            made.append(Derive(step.subject, step.value))
        elif step.verb in ("install", "change"):
            made.append(Install(step.subject, step.value))
        elif step.verb == "drop":
            made.append(Drop(step.subject))
    return compiled(made)


@given(scripts(multiway=True))
def test_random_queries_are_decoded_as_they_were(steps: list[Step]) -> None:
    for instruction in instructions_in(steps, (R, S, Q)):
        check_round_trip(instruction)


@given(scripts(derived=True, multiway=True))
def test_random_queries_over_derived_streams_are_decoded_as_they_were(steps: list[Step]) -> None:
    for instruction in instructions_in(steps, (R, S, Q)):
        check_round_trip(instruction)


@given(aggregate_scripts())
def test_random_aggregates_are_decoded_as_they_were(steps: list[Step]) -> None:
    for instruction in instructions_in(steps, (R, S, Q)):
        check_round_trip(instruction)


def test_an_instruction_keeps_what_was_asked_for() -> None:
    program = compile_text("SELECT x FROM R")
    flow = FlowChoice("splitjoin", 4, 2, 10, "shed")
    check_round_trip(program.placed(flow))
    install = Install("q", program, "outer", "hash", flow)
    assert install == Install("q", program.placed(flow), "outer", "hash")
    check_round_trip(install)
    again = Install("q", program.placed(flow), flow=FlowChoice("shared", 8))
    assert again.asked_flow == FlowChoice("shared", 8, 2, 10, "shed")
    check_round_trip(Reset())
    check_round_trip(CreateStream(T))
    odd = Stream.of_columns("O", pa.schema({"x": pa.int8(), "l": pa.list_(pa.int8())}))
    assert odd.left_out
    check_round_trip(CreateStream(odd))


LITERALS = (
    (True, pa.bool_()),
    (None, pa.null()),
    (None, pa.string()),
    (-(2**63), pa.int64()),
    (2**64 - 1, pa.uint64()),
    (0.1, pa.float64()),
    (-0.0, pa.float32()),
    (float("inf"), pa.float64()),
    (float("-inf"), pa.float64()),
    (Decimal("-0.50"), pa.decimal128(2, 2)),
    (Decimal("0.00"), pa.decimal128(2, 2)),
    (Decimal(10**38 - 1), pa.decimal128(38, 0)),
    (-1, pa.date32()),
    (2**63 - 1, pa.timestamp("ns", "+02:00")),
    (-5, pa.duration("us")),
    ('"\\\n\u00e4\U0001f600', pa.string()),
    (b"\x00\xff", pa.binary()),
)


def program_of(*expressions: Expression) -> Program:
    """A program that computes these over T."""
    outputs = tuple(Output(f"c{i}", one) for i, one in enumerate(expressions))
    schema = pa.schema([pa.field(one.name, one.type) for one in outputs])
    return Program(
        (ScanStream(0, T), ProjectColumns(1, 0, outputs)), schema, "SELECT ...", "none", 1
    )


def test_constants_of_every_type_are_decoded_as_they_were() -> None:
    program = program_of(*(Literal(value, kind) for value, kind in LITERALS))
    check_round_trip(program)
    decoded = Program.from_json(program.to_json())
    again = decoded.instructions[1]
    assert isinstance(again, ProjectColumns)
    found = [one.expression for one in again.columns]
    assert [repr(one.value) for one in found] == [repr(value) for value, _ in LITERALS]


def test_nan_is_decoded_as_nan() -> None:
    program = program_of(Literal(float("nan"), pa.float64()))
    decoded = Program.from_json(program.to_json())
    assert decoded.to_json() == program.to_json()
    assert '"value":"nan"' in decoded.to_json()


def test_an_expression_of_ten_thousand_levels_is_decoded_as_it_was() -> None:
    deep: Expression = Column(0, 1, "i", pa.int64())
    for level in range(10_000):
        one = Literal(level % 7, pa.int64())
        deep = Call("add", (deep, one), pa.int64()) if level % 3 else Cast(deep, pa.int64())
    program = program_of(deep)
    text = program.to_json()
    decoded = Program.from_json(text)
    assert decoded.to_json() == text
    assert decoded.digest == program.digest
    levels, node = 0, decoded.instructions[1].columns[0].expression  # type: ignore[union-attr]
    while not isinstance(node, Column):
        node = node.arg if isinstance(node, Cast) else node.args[0]  # type: ignore[union-attr]
        levels += 1
    assert levels == 10_000


def test_equal_expressions_stand_in_the_table_once() -> None:
    program = compile_text("SELECT i + 1 AS a, (i + 1) * (i + 1) AS b FROM T")
    entries = json.loads(program.to_json())["expressions"]
    assert len({json.dumps(one, sort_keys=True) for one in entries}) == len(entries)
    assert sum(one.get("op") == "add" for one in entries) == 1


def test_the_json_is_canonical() -> None:
    text = compile_text("SELECT x FROM R WHERE s = '\u00e4'").to_json()
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    assert text.isascii()


def test_types_that_are_only_handed_on_are_decoded_as_they_were() -> None:
    kinds = (pa.list_(pa.string()), pa.struct({"a": pa.int8()}), pa.map_(pa.string(), pa.int64()))
    schema = pa.schema([pa.field(f"c{i}", kind) for i, kind in enumerate(kinds)])
    outputs = tuple(Output(f"c{i}", Column(0, i, f"c{i}", k)) for i, k in enumerate(kinds))
    scan = ScanStream(0, Stream("O", schema))
    check_round_trip(
        Program((scan, ProjectColumns(1, 0, outputs)), schema, "SELECT ...", "none", 1)
    )
    for damaged in ("arrow:", "arrow:////", "arrow:" + "A" * 400, "arrow:?"):
        with pytest.raises(ProgramError, match=r"types\[0\]: expected the name of a type"):
            Program.from_json(edited(compile_text(QUERY), types__0=damaged))


# -- identity -------------------------------------------------------------------------------

SPELLINGS = (
    (
        "SELECT r.x AS x, s.a AS a FROM R [ROWS 5] r JOIN S [ROWS 5] s ON r.x = s.a",
        "select  one.x as x, two.a as a\nfrom r [rows 5] AS one  inner join s [ROWS 5] AS two "
        "on (one.x = two.a)",
    ),
    (
        "SELECT SUM(x) AS total FROM R [RANGE 10 SLIDE 5 WATTR t] GROUP BY s",
        "SELECT sum(q.x) AS total FROM R [RANGE 10 SLIDE 5 WATTR t] q GROUP BY q.s",
    ),
    (
        "SELECT x FROM R UNION ALL SELECT a AS x FROM S",
        "SELECT t.x FROM R t UNION ALL SELECT t.a AS x FROM S t",
    ),
)


@pytest.mark.parametrize(("one", "other"), SPELLINGS)
def test_another_spelling_is_the_same_program(one: str, other: str) -> None:
    first, second = compile_text(one), compile_text(other)
    assert first.text != second.text
    assert first.digest == second.digest
    assert len(first.digest) == 64


OTHERS = (
    "SELECT x FROM R WHERE x > 5",
    "SELECT x FROM R WHERE x > 6",
    "SELECT x FROM R WHERE x >= 5",
    "SELECT x AS y FROM R WHERE x > 5",
    "SELECT y AS x FROM R WHERE x > 5",
    "SELECT x FROM R WHERE x > 5 EMIT ORDER outer",
    "SELECT r.x AS x FROM R [ROWS 5] r JOIN S [ROWS 5] s ON r.x = s.a",
    "SELECT r.x AS x FROM R [ROWS 5] r JOIN S [ROWS 6] s ON r.x = s.a",
    "SELECT r.x AS x FROM R [ROWS 5] r LEFT JOIN S [ROWS 5] s ON r.x = s.a",
    "SELECT SUM(x) AS x FROM R [RANGE 10 SLIDE 5 WATTR t]",
    "SELECT SUM(x) AS x FROM R [RANGE 10 SLIDE 5 WATTR t SLACK 1]",
    "SELECT SUM(t) AS x FROM R [RANGE 10 SLIDE 5 WATTR t]",
)


def test_other_queries_are_other_programs() -> None:
    assert len({compile_text(text).digest for text in OTHERS}) == len(OTHERS)


def test_the_digest_does_not_depend_on_the_words_for_people() -> None:
    said = json.loads(compile_text(SPELLINGS[1][0]).to_json())

    def reworded(found: Any) -> Any:
        if isinstance(found, list):
            return [reworded(one) for one in found]
        if not isinstance(found, dict):
            return found
        words = {"reason", "text", "alias"} & found.keys()
        return {key: "other words" if key in words else reworded(one) for key, one in found.items()}

    other = Program.from_json(json.dumps(reworded(said)))
    assert other.text == "other words"
    assert other.digest == compile_text(SPELLINGS[1][0]).digest


def test_the_digest_does_not_depend_on_the_placement() -> None:
    program = compile_text(SPELLINGS[0][0])
    placed = program.placed(FlowChoice("splitjoin", 4, 2, admission="shed"))
    assert placed != program and placed.digest == program.digest
    assert Program.from_json(placed.to_json()).flow == placed.flow
    assert placed.placed() == program


# -- damages --------------------------------------------------------------------------------


def test_damaged_programs_are_refused_in_words() -> None:
    assert campaign.run(seed=3, count=2000) == 0


def edited(program: Program, **fields: Any) -> str:
    """Its JSON with values put at paths, in which ``__`` stands for a dot."""
    found = json.loads(program.to_json())
    for path, value in fields.items():
        *way, last = [int(p) if p.isdigit() else p for p in path.split("__")]
        holder = found
        for part in way:
            holder = holder[part]
        holder[last] = value
    return json.dumps(found)


QUERY = "SELECT x FROM R WHERE x > 5"
REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    (
        {"instructions__1__condition": 9},
        "instructions[1].condition: expected an index below 4, found 9",
    ),
    ({"instructions__1__is": "sort"}, "instructions[1].is: expected one of scan, join, "),
    ({"instructions__2__input": 7}, "instructions[2].input: expected the number of an earlier"),
    ({"instructions__2__block": 0}, "instructions[2].block: expected more than 1, found 0"),
    (
        {"instructions__1__condition": 0},
        "instructions[1].condition: expected boolean, found int32",
    ),
    ({"expressions__2__op": "cosine"}, "expressions[2].op: expected one of eq, ne, "),
    ({"expressions__2__args": [2, 1]}, "expressions[2].args[0]: expected an index below 2, found"),
    ({"expressions__2__args": [0]}, "expressions[2].args: gt takes two values of one type"),
    ({"expressions__0__index": 77}, "instructions[1].condition: there is no column 77 on side 0"),
    ({"constants__0__value": "5"}, 'constants[0].value: expected a whole number, found "5"'),
    ({"types__0": "int65"}, 'types[0]: expected the name of a type, found "int65"'),
    ({"order": "random"}, 'order: expected one of none, outer, inner, found "random"'),
    ({"precision": 0}, "precision: expected a whole number, 1 or more, found 0"),
    ({"surprise": 1}, "program: unknown field 'surprise'"),
    ({"format": 1}, "format: the program is in the format 1; this is Penstock "),
    ({"is": "drop"}, "program: the field 'query' is missing"),
    ({"schema": []}, "schema: expected the types of the last block's columns"),
)


@pytest.mark.parametrize(("fields", "what"), REFUSED, ids=lambda one: str(one)[:40])
def test_an_error_names_the_field(fields: dict[str, Any], what: str) -> None:
    with pytest.raises(ProgramError) as caught:
        Program.from_json(edited(compile_text(QUERY), **fields))
    assert caught.value.what.startswith(what)
    assert caught.value.remedy


THREE = "SELECT r.x FROM R [ROWS 1] r, S [ROWS 1] s, R [ROWS 1] q WHERE r.x = s.a AND s.a = q.x"
TREE = (
    "SELECT r.x FROM R [ROWS 1] r JOIN S [ROWS 1] s ON r.x = s.a ANTI JOIN R [ROWS 1] q "
    "ON s.a = q.x"
)
REFUSED_STEPS: tuple[tuple[dict[str, Any], str], ...] = (
    (
        {"instructions__3__steps__0__kind": "cross"},
        "instructions[3].steps[0].kind: expected one of inner, left, right, full, semi, anti, ",
    ),
    (
        {"instructions__3__steps": [{"kind": "left", "on": 0}] * 3},
        "instructions[3].steps: expected steps for some of three and more inputs, found 3 inputs",
    ),
    (
        {"instructions__3__steps": [{"kind": "left", "on": 1}]},
        "instructions[3].steps[0].on: expected boolean, found int32",
    ),
    (
        {"instructions__3__columns": [[0], [], [0]]},
        "instructions[3].columns[2]: expected none, since the join is anti",
    ),
)
REFUSED_JOINS: tuple[tuple[dict[str, Any], str], ...] = (
    *(
        ({f"instructions__3__{name}": []}, f"instructions[3].{name}: expected a list of 2 or more")
        for name in ("inputs", "streams", "schemas", "windows", "times", "filters", "columns")
    ),
    (
        {"instructions__3__filters": [0, 0]},
        "instructions[3].filters: expected a list of 3, one for each input",
    ),
    (
        {"instructions__3__streams": ["a", "b", "c", "d"]},
        "instructions[3].streams: expected a list of 3, one for each input",
    ),
    (
        {"instructions__3__inputs": [0] * 64},
        "instructions[3].inputs: expected 63 blocks at most, found 64",
    ),
    (
        {"instructions__3__kind": "left"},
        "instructions[3].kind: expected inner for a join of 3 inputs, found left",
    ),
    (
        {"expressions__2__side": 0},
        "instructions[3].compiled: expected conditions over two inputs and more, found (r.x = s.a)",
    ),
)


@pytest.mark.parametrize(("fields", "what"), REFUSED_JOINS, ids=lambda one: str(one)[:40])
def test_an_error_names_the_field_of_a_join(fields: dict[str, Any], what: str) -> None:
    with pytest.raises(ProgramError) as caught:
        Program.from_json(edited(compile_text(THREE), **fields))
    assert caught.value.what.startswith(what)


@pytest.mark.parametrize(("fields", "what"), REFUSED_STEPS, ids=lambda one: str(one)[:40])
def test_an_error_names_the_field_of_a_step(fields: dict[str, Any], what: str) -> None:
    with pytest.raises(ProgramError) as caught:
        Program.from_json(edited(compile_text(TREE), **fields))
    assert caught.value.what.startswith(what)


def test_a_join_of_three_inputs_makes_a_round_trip() -> None:
    check_round_trip(compile_text(THREE))


def test_what_is_no_json_is_refused() -> None:
    deep = "[" * 100_000
    for text in ("", "{", "nul", "[1,2", deep, '{"format": NaN}', "9" * 10_000, '{"a":1,"a":2}'):
        with pytest.raises(ProgramError):
            Program.from_json(text)


def test_an_instruction_is_no_program() -> None:
    with pytest.raises(ProgramError, match='is: expected program, found "drop"'):
        Program.from_json(to_json(Drop("q")))


def test_an_expression_that_repeats_itself_without_end_is_refused() -> None:
    found = json.loads(program_of(Column(0, 1, "i", pa.int64())).to_json())
    for level in range(60):
        add = {"is": "call", "op": "add", "args": [level, level], "type": 0}
        found["expressions"].append({**add, "type": found["expressions"][0]["type"]})
    with pytest.raises(ProgramError, match=r"expressions\[\d+\]: the expression has more than"):
        Program.from_json(json.dumps(found))


def test_the_error_is_one_of_penstock() -> None:
    assert issubclass(ps.ProgramError, PenstockError)


# -- the table ------------------------------------------------------------------------------


def test_every_field_of_every_record_is_in_the_table() -> None:
    for record in SENT.records:
        fields = {one.name for one in dataclasses.fields(record.type)}
        # A flow beside a query is of SQL, which is not encoded; a program has its own.
        fields -= {"flow"} if record.type is Install else set()
        assert {one.name for one in record.fields} == fields


def test_the_page_is_what_the_table_says() -> None:
    written = Path(__file__).parents[2] / "docs" / "program.md"
    assert written.read_text(encoding="utf-8") == page(), (
        "run: python -m penstock.program.isa.document > docs/program.md"
    )


def test_decoding_imports_no_parser_and_no_binder() -> None:
    text = compile_text("SELECT SUM(x) AS x FROM R [RANGE 10 SLIDE 5 WATTR t]").to_json()
    code = (
        "import sys\n"
        "from penstock.program.isa.encoding import from_json\n"
        f"from_json({text!r})\n"
        "wanted = [m for m in sys.modules if m.startswith(('penstock.sql', 'sqlglot'))]\n"
        "print(*sorted(wanted))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == [
        "penstock.sql",
        "penstock.sql.aggregates",
        "penstock.sql.arrow_types",
        "penstock.sql.expressions",
        "penstock.sql.operations",
        "penstock.sql.plan",
    ]
