"""Hostile literals, rows, files and values: each is taken, a dead letter, or an error of ours.

A case is one text, file or push. Whatever it is, every record of it is accounted for, in the rows
or in the dead letters, or there is a PenstockError that says where and what to do. Cases run in a
process of their own, so that a crash or a hang is the case's and not the campaign's.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from penstock.connectors.files import FileSource, TableSource
from penstock.errors import PenstockError, SqlError
from penstock.oracle.arithmetic import Failure
from penstock.oracle.casts import cast
from penstock.program.compile.compiler import compile_plan
from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.query import bind
from penstock.sql.parse.parser import parse
from penstock.sql.parse.statements import QueryText
from penstock.sql.plan import Join
from penstock.streams.events import Malformed, Tuples
from penstock.streams.literals import format_rows, to_physical
from penstock.streams.schema import Stream, is_time_type, type_name
from penstock.testing.script import TupleStep, parse_script
from tests.campaigns import _hostile_input as hostile

COUNT = 100_000
SECONDS = 20.0
"""How much of a processor's time a case may take; most take milliseconds."""

PATIENCE = 600.0
"""How long the campaign waits for a case that does nothing at all."""

STREAMS = """
CREATE STREAM R (id int64, x int32, z double, name string, t timestamp, p decimal(10, 2))
TIMESTAMP BY id;
CREATE STREAM S (id int64, a int32, t timestamp, name string)
"""


class Wrong(Exception):
    """A case that did not do what it should."""


def check(holds: bool, what: str) -> None:
    """Go on if it holds."""
    if not holds:
        raise Wrong(what)


def _new_engine() -> Any:
    engine = ps.connect("local")
    for statement in STREAMS.split(";"):
        engine.sql(statement)
    return engine


# -- cases ----------------------------------------------------------------------------------


def sql_case(draw: Random) -> None:
    """A statement: bound, and run if it has no join, whose kernel would take seconds to compile."""
    text = hostile.sql(draw)
    streams = [s.stream for s in parse(STREAMS)]  # type: ignore[union-attr]
    try:
        statements = parse(text)
        plans = [bind(s, Catalog(streams)) for s in statements if isinstance(s, QueryText)]
        for plan in plans:
            compile_plan(plan)
    except SqlError as error:
        check(" at line " in str(error), f"no place in {error}")
        raise
    if len(statements) != 1 or any(isinstance(s.source, Join) for p in plans for s in p.selects):
        return
    engine = _new_engine()
    if not plans:
        engine.sql(text)
        engine.sql("SHOW STREAMS")
        return
    query = engine.install(text, name="q")
    rows = [{"id": i, "x": i, "z": 1.5, "name": "a", "p": 1} for i in range(3)]
    try:
        engine.push("R", rows)
        engine.end()
    except ps.QueryFailed as error:
        check("defect" not in str(error), str(error))
        return
    query.rows().to_pylist()
    seen = query.metrics()["tuples_in"]["R"]
    check(seen == 3, f"{seen} of 3 tuples came in")
    engine.sql("SHOW QUERIES").to_pylist()


def script_case(draw: Random) -> None:
    """A script, and what its literals are in columns of every type."""
    for step in parse_script(hostile.script(draw)):
        for literal in step.values if isinstance(step, TupleStep) else ():
            for kind in hostile.TYPES:
                try:
                    to_physical(literal, kind)
                except ValueError as reason:
                    str(reason).encode()


def cast_case(draw: Random) -> None:
    """Texts cast in SQL, compared with the oracle."""
    kind = draw.choice([t for t in hostile.TYPES if not pa.types.is_binary(t)])
    texts = [hostile.text(draw) for _ in range(5)]
    engine = ps.connect("local")
    engine.sql("CREATE STREAM R (s string)")
    query = engine.install(f"SELECT CAST(s AS {type_name(kind)}) AS v FROM R", name="q")
    engine.push("R", pa.table({"s": texts}))
    found = format_rows(query.rows().combine_chunks().to_batches()[0])
    expected = [_oracle_cast(text, kind) for text in texts]
    columns = pa.record_batch([_array(expected, kind)], names=["v"])
    check(
        found == format_rows(columns), f"{texts!r} as {kind}: {found}, not {format_rows(columns)}"
    )


def _oracle_cast(text: str, kind: pa.DataType) -> Any:
    try:
        return cast(text, pa.string(), kind)
    except Failure:
        return None


def _array(values: list[Any], kind: pa.DataType) -> Any:
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).view(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).view(kind)
    return pa.array(values, kind)


def csv_case(draw: Random) -> None:
    """A CSV file."""
    columns = hostile.schema(draw)
    data = hostile.csv_file(draw, columns)
    lines = data.split(b"\n")
    # Without quotes and returns a record is a line, and an empty line is none.
    plain = not any(mark in data for mark in (b'"', b"\r", b"\xef\xbb\xbf"))
    records = sum(map(bool, lines[1:])) if plain and lines[0] else None
    header = lines[0] + b"\n" if plain else None
    _file_case(draw, "r.csv", data, columns, records, header, lines[1:])


def json_case(draw: Random) -> None:
    """A file of JSON Lines."""
    columns = hostile.schema(draw)
    data = hostile.json_lines(draw, columns)
    lines = data.split(b"\n")
    records = sum(bool(line.strip()) for line in lines)
    first = json.dumps(dict.fromkeys(columns.names)).encode() + b"\n"
    _file_case(draw, "r.jsonl", data, columns, records, first, lines)


def _file_case(
    draw: Random,
    name: str,
    data: bytes,
    columns: pa.Schema,
    records: int | None,
    first: bytes | None,
    lines: list[bytes],
) -> None:
    declared = Stream.of("R", columns) if draw.random() < 0.7 else None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        found = _read(path, declared)
        if records is not None:
            check(len(found) == records, f"{len(found)} of {records} records of {data!r}")
        if declared is not None and first is not None and draw.random() < 0.2:
            alone: list[str] = []
            for line in lines:
                if line.strip() or (name.endswith(".csv") and line):
                    path.write_bytes(first + line + b"\n")
                    alone.extend(_read(path, declared)[name.endswith(".jsonl") :])
            check(found == alone, f"together {found}, alone {alone}, of {data!r}")
        if draw.random() < 0.1:
            path.write_bytes(data)
            _run(path, declared, found)


def _read(path: Path, declared: Stream | None) -> list[str]:
    """Each record as a row, or as a dead letter without its place."""
    found: list[str] = []
    last = 0
    for part in FileSource.open("R", path, declared).parts():
        check(part.first_row > last, f"record {part.first_row} comes after {last}")
        if isinstance(part.event, Malformed):
            part.event.text.encode()
            found.append(f"dead {part.event.text} ({part.event.reason.rpartition(' (')[0]})")
            last = part.first_row
        else:
            assert isinstance(part.event, Tuples)
            found.extend(format_rows(part.event.batch))
            last = part.first_row + len(part.event) - 1
    return found


def _run(path: Path, declared: Stream | None, found: list[str]) -> None:
    """The same file by ``ps.sql``."""
    text = "" if declared is None else hostile.declaration(declared.schema) + ";"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = FileSource.open("R", path, declared).stream.schema.names
        listed = ", ".join(f'"{name}"' for name in names)
        rows = ps.sql(f"{text} SELECT {listed} FROM R", R=str(path))
    taken = sum(not line.startswith("dead ") for line in found)
    check(rows.num_rows == taken, f"{rows.num_rows} rows of {taken} tuples")


def parquet_case(draw: Random) -> None:
    """A Parquet file. Arrow itself may not survive a damaged one whose pages have no checksums."""
    data = hostile.parquet_file(draw)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.parquet"
        path.write_bytes(data)
        found = _read(path, None)
        records = pq.read_metadata(path).num_rows
        check(len(found) == records, f"{len(found)} of {records} records")


def push_case(draw: Random) -> None:
    """Dicts, or another container, pushed to a stream."""
    columns = hostile.schema(draw)
    engine = ps.connect("local")
    engine.sql(hostile.declaration(columns))
    query = engine.install("SELECT * FROM R", name="q")
    data: Any = hostile.rows_of(draw, columns)
    if draw.random() < 0.5:
        other = hostile.container(draw, columns)
        data = data if other is None else other
    count = data.num_rows if isinstance(data, (pa.Table, pa.RecordBatch)) else len(data)
    engine.push("R", data)
    rows, letters = query.rows(), query.dead_letters()
    check(
        rows.num_rows + letters.num_rows == count,
        f"{rows.num_rows} + {letters.num_rows} of {count}",
    )
    seen = query.metrics()["tuples_in"]["R"] if rows.num_rows else 0
    check(seen == rows.num_rows, f"{seen} tuples came in, {rows.num_rows} went out")
    for batch in (*rows.to_batches(), *letters.to_batches()):
        batch.validate(full=True)
        format_rows(batch)


def table_case(draw: Random) -> None:
    """Data in memory whose types are its own."""
    columns = hostile.schema(draw)
    data: Any = hostile.rows_of(draw, columns)
    if draw.random() < 0.6:
        other = hostile.container(draw, columns)
        data = data if other is None else other
    count = data.num_rows if isinstance(data, (pa.Table, pa.RecordBatch)) else len(data)
    source = TableSource.open("R", data)
    found = sum(len(p.event) if isinstance(p.event, Tuples) else 1 for p in source.parts())
    check(found == count, f"{found} of {count} rows")


def punctuate_case(draw: Random) -> None:
    """A value that a stream is punctuated with."""
    kind = draw.choice([k for k in hostile.TYPES if is_time_type(k)])
    columns = pa.schema({"t": kind, "x": pa.int64()})
    engine = ps.connect("local")
    engine.sql(hostile.declaration(columns) + draw.choice(("", " TIMESTAMP BY t")))
    engine.punctuate("R", hostile.value(draw), draw.choice((None, "t")))


CASES: tuple[tuple[Callable[[Random], None], int], ...] = (
    (sql_case, 30),
    (script_case, 15),
    (cast_case, 10),
    (csv_case, 15),
    (json_case, 15),
    (parquet_case, 3),
    (push_case, 25),
    (table_case, 8),
    (punctuate_case, 3),
)


def one_case(seed: int, number: int) -> tuple[str, str | None]:
    """The kind of the case, and what is wrong with it, or None."""
    draw = Random(f"{seed}/{number}")
    (case,) = draw.choices([c for c, _ in CASES], [w for _, w in CASES])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case(draw)
    except PenstockError as error:
        complete = bool(error.what and error.remedy) and error.remedy[-1] in ".?;"
        try:
            str(error).encode()
        except UnicodeEncodeError:
            complete = False
        return case.__name__, None if complete else f"incomplete: {error!r}"
    except Wrong as error:
        return case.__name__, str(error)
    except Exception as error:  # which is what the campaign looks for
        return case.__name__, f"{type(error).__name__}: {error}"
    return case.__name__, None


def child(seed: int, first: int, count: int) -> None:
    """Run cases, a line of JSON for each. One that takes too long ends the process (SIGPROF)."""
    for number in range(first, first + count):
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        kind, wrong = one_case(seed, number)
        print(json.dumps([number, kind, wrong]), flush=True)


ENDS = {
    None: f"nothing happens for {PATIENCE:.0f} s",
    -signal.SIGPROF: f"no end in {SECONDS:.0f} s",
    -signal.SIGSEGV: "a segmentation fault",
}


# -- the campaign ---------------------------------------------------------------------------


def run(seed: int, count: int) -> int:
    """Try ``count`` cases; what went wrong is printed with the line that repeats it."""
    kinds: Counter[str] = Counter()
    wrong, number = 0, 0
    started = time.monotonic()
    while number < count:
        done, problem = _part(seed, number, min(2_000, count - number), kinds)
        wrong += problem
        number = done
        print(f"{number} cases, {wrong} wrong, {time.monotonic() - started:.0f} s", flush=True)
    print(", ".join(f"{kinds[case.__name__]} {case.__name__}" for case, _ in CASES))
    return wrong


def _part(seed: int, first: int, count: int, kinds: Counter[str]) -> tuple[int, int]:
    """Cases in one process: the number of the next one, and how many went wrong."""
    code = f"from tests.campaigns.hostile import child; child({seed}, {first}, {count})"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    number, wrong = first, 0
    try:
        for line in _lines(process):
            number, kind, problem = json.loads(line)
            kinds[kind] += 1
            if problem is not None:
                _tell(seed, number, f"{kind}: {problem[:500]}")
                wrong += 1
            number += 1
        if number < first + count:
            ended = process.poll()
            _tell(seed, number, ENDS.get(ended, f"exit {ended}"))
            return number + 1, wrong + 1
    finally:
        process.kill()
        process.communicate()
    return number, wrong


def _lines(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """What the process says, until it ends or says nothing for too long."""
    assert process.stdout is not None
    said = b""
    while select.select([process.stdout], [], [], PATIENCE)[0]:
        piece = os.read(process.stdout.fileno(), 1 << 16)
        if not piece:
            process.wait()
            return
        *lines, said = (said + piece).split(b"\n")
        yield from lines


def _tell(seed: int, number: int, what: str) -> None:
    shown = what.encode("utf-8", "replace").decode()
    repeat = f"python -c 'from tests.campaigns.hostile import child; child({seed}, {number}, 1)'"
    print(f"case {number}: {shown}\n  repeat: {repeat}", flush=True)
