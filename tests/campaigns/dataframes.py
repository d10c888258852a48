"""Derived streams and chains of ``pss.sql`` against the oracle: random scripts, input, failures.

A case is a script of ``pss.sql`` over r and s with one to three derived streams, tuples out of
order, with ties, NULL and NaN, cut into triggers in any way, some of them empty or failing. It runs
in this process, with everything but the JVM. The oracle is given the tuples in the order that
``penstock.spark`` documents: by trigger and time, or, with a count window, by the order column.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import types

from penstock.engines.spark.dataframes.arguments import Request
from penstock.engines.spark.dataframes.chain import remember, unfold
from penstock.engines.spark.dataframes.job import Job
from penstock.engines.spark.dataframes.prepare import check
from penstock.engines.spark.dataframes.script import Script, names_read, parse_script
from penstock.oracle.oracle import Oracle
from penstock.sql.parse.statements import DeriveStream
from penstock.streams.schema import Stream
from tests.engines.spark.dataframes.in_process import Cluster, Row, Trigger, job_of, source
from tests.thresholds import low_thresholds

COUNT = 2_000
COLUMNS: dict[str, types.DataType] = {
    "ts": types.LongType(),
    "k": types.IntegerType(),
    "y": types.DoubleType(),
}
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int32()), ("y", pa.float64())])
CONDITIONS = (
    "a.k = b.k",
    "a.k <= b.k",
    "a.k = b.k AND a.y < b.y",
    "a.k BETWEEN b.k - 1 AND b.k + 1 AND a.y <> b.y",
    "a.k = b.k AND a.y / b.k < 2",
)
JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")


@dataclass(frozen=True)
class Case:
    """A script, how its tuples are put in order, and the tuples as the triggers bring them.

    ``chained``: each of its statements is a ``pss.sql`` of its own that reads those before it.
    """

    sql: str
    mode: str
    triggers: list[Trigger]
    seed: int
    chained: bool = False


def case(chance: random.Random) -> Case:
    """A random case. ``mode`` is time, arrival, order or static."""
    mode = chance.choice(("time", "time", "arrival", "order", "static"))
    slack = 0 if mode == "order" else chance.randint(0, 4)
    sql = script(chance, mode, slack)
    disorder = 0 if mode == "order" else chance.choice((0, slack, slack, slack + 3))
    streams = [tuples(chance, number, mode) for number in (0, 1)]
    made = triggers(chance, streams, disorder)
    chained = mode != "static" and chance.random() < 0.4
    return Case(sql, mode, made, chance.randrange(1 << 30), chained)


def script(chance: random.Random, mode: str, slack: int) -> str:
    """Statements over r and s; every stream has the columns ts, k and y."""
    counts = mode in ("arrival", "order")
    known = {"r": True, "s": True}  # by name, whether it punctuates by itself; else it needs SLACK
    base = {"r", "s"}
    texts = []
    for name in ("d", "e", "f")[: chance.randint(1, 3)]:
        text, told = statement(chance, known, base, slack, counts)
        texts.append(f"CREATE STREAM {name} AS {text}")
        known[name] = told
    unread = [name for name in known if name not in base]
    last = unread[-1]
    if chance.random() < 0.7:
        window = sliding(chance, last, known, base, slack, counts)
        keys = chance.choice(("", "k"))
        listed = f"{keys}, " if keys else ""
        text = f"SELECT {listed}COUNT(*) AS n, SUM(y) AS sum, MAX(k) AS most FROM {last} {window}"
        text += f" GROUP BY {keys}" if keys else ""
    else:
        text = statement(chance, {last: known[last], "s": True}, base, slack, counts, first=last)[0]
    texts.append(text)
    whole = "; ".join(texts)
    # All that is derived must be read, and all DataFrames.
    parsed = parse_script(whole)
    read = {one.lower() for query in parsed.queries for one in names_read(query)}
    return whole if read.issuperset(known) else script(chance, mode, slack)


def statement(
    chance: random.Random,
    known: dict[str, bool],
    base: set[str],
    slack: int,
    counts: bool,
    first: str | None = None,
) -> tuple[str, bool]:
    """A query with the columns ts, k and y, and whether its ts is punctuated."""
    left = first or chance.choice(list(known))
    kind = chance.choice(("select", "join", "join", "join", "semi", "aggregate", "union"))
    if kind == "select":
        return f"SELECT ts, k + 1 AS k, y FROM {left} WHERE k < 3", known[left] and left not in base
    if kind == "union":
        right = chance.choice(list(known))
        told = all(known[one] and one not in base for one in (left, right))
        text = f"SELECT ts, k, y FROM {left} UNION ALL SELECT ts, k, y * 2 AS y FROM {right}"
        return text, told
    if kind == "aggregate":
        window = sliding(chance, left, known, base, slack, counts=False)
        text = f"SELECT window_end AS ts, k, SUM(y) AS y FROM {left} {window} GROUP BY k"
        return text, True
    right = chance.choice([name for name in known if name != left] or [left])
    windows = [joined(chance, one, known, base, slack, counts) for one in (left, right)]
    timed = all("RANGE" in window for window in windows)
    sides = f"{left} {windows[0]} AS a {{}} {right} {windows[1]} AS b"
    condition = chance.choice(CONDITIONS)
    if kind == "semi":
        words = chance.choice(("SEMI JOIN", "ANTI JOIN"))
        return f"SELECT a.ts, a.k, a.y FROM {sides.format(words)} ON {condition}", timed
    words = chance.choice(JOINS)
    side = chance.choice("ab")
    text = f"SELECT {side}.ts AS ts, a.k AS k, b.y AS y FROM {sides.format(words)} ON {condition}"
    return text, timed


def joined(
    chance: random.Random,
    name: str,
    known: dict[str, bool],
    base: set[str],
    slack: int,
    counts: bool,
) -> str:
    """A window clause of a join."""
    if counts and chance.random() < 0.5:
        return f"[ROWS {chance.randint(1, 4)}]"
    return f"[RANGE {chance.randint(1, 5)} WATTR ts{_slack(chance, name, known, base, slack)}]"


def sliding(
    chance: random.Random,
    name: str,
    known: dict[str, bool],
    base: set[str],
    slack: int,
    counts: bool,
) -> str:
    """A window clause of an aggregate."""
    if counts and chance.random() < 0.5:
        return f"[ROWS {chance.randint(1, 4)} SLIDE {chance.randint(1, 3)}]"
    size, slide = chance.randint(1, 6), chance.randint(1, 4)
    return f"[RANGE {size} SLIDE {slide} WATTR ts{_slack(chance, name, known, base, slack)}]"


def _slack(
    chance: random.Random, name: str, known: dict[str, bool], base: set[str], slack: int
) -> str:
    needed = name in base or not known[name]
    if needed or chance.random() < 0.1:
        return f" SLACK {slack}"
    return ""


def tuples(chance: random.Random, number: int, mode: str) -> list[Row]:
    """Tuples of a stream by time; some have none."""
    ts, rows = 0, []
    for _ in range(chance.choice((0, 6, 20, 30))):
        ts += chance.choice((0, 0, 1, 1, 2, 5))
        y = chance.choice((None, math.nan, -0.0, 0.5, 1.5, float(chance.randint(0, 9))))
        k = chance.choice((None, 0, 1, 1, 2, 3))
        rows.append((None if chance.random() < 0.05 else ts, k, y))
    return rows


def triggers(chance: random.Random, streams: list[list[Row]], disorder: int) -> list[Trigger]:
    """The tuples out of order by at most so much, cut anywhere, some triggers without any."""
    waiting = [
        sorted(rows, key=lambda row: (row[0] or 0) + chance.randint(0, disorder))
        for rows in streams
    ]
    cuts = chance.randint(1, 6)
    made: list[Trigger] = []
    for number in range(cuts):
        parts: Trigger = []
        for stream, left in enumerate(waiting):
            size = (
                len(left)
                if number == cuts - 1
                else chance.choice((0, chance.randint(0, len(left))))
            )
            taken, waiting[stream] = left[:size], left[size:]
            chance.shuffle(taken)
            half = chance.randint(0, size)
            parts += [(stream, taken[:half]), (stream, taken[half:])]
        made.append(parts)
    return made


def wrong(given: Case) -> str | None:
    """What is wrong with the rows or the letters of a case; None if nothing is."""
    bounded = given.mode == "static"
    script = parse_script(given.sql)
    options: dict[str, Any] = {"order_by": "ts"} if given.mode in ("arrival", "order") else {}
    options |= {"merge": "arrival"} if given.mode == "arrival" else {}
    if given.chained:
        job = chained_job(script, Request(**options))
    else:
        sources = [source(name, COLUMNS, bounded=bounded) for name in script.reads]
        job = job_of(given.sql, *sources, **options)
    lanes = [lane.stream.name for lane in job.lanes]
    chance = random.Random(given.seed)
    cluster = Cluster(job, 1, chance, SCHEMA)
    moved = [[(lanes.index("rs"[i]), rows) for i, rows in parts] for parts in given.triggers]
    if bounded:
        moved = [[part for parts in moved for part in parts]]
        cluster.last(moved[0])
    else:
        for parts in moved:
            cluster.trigger(parts)
    oracle = Oracle(windows_required=not bounded, order_column="ts" if options else None)
    for name in lanes:
        oracle.create_stream(Stream("r" if name == "r" else "s", SCHEMA, bounded=bounded))
    for statement in script.derived:
        oracle.derive(statement.name, statement.query.text)
    oracle.install("q", script.query.text)
    sequence = _by_key(moved) if job.by_key else _by_trigger(moved)
    for lane, row in sequence:
        batch = pa.RecordBatch.from_arrays(
            [pa.array([value], field.type) for value, field in zip(row, SCHEMA, strict=True)],
            schema=SCHEMA,
        )
        oracle.tuples(lanes[lane], batch)
    if bounded:
        oracle.end(None)
    names = [*(one.name for one in script.derived), "q"]
    late = Counter(one for name in names for one in oracle.reasons[name])
    dead = Counter(one[-1] for name in names for one in oracle.dead[name])
    if job.by_key:  # these have no place in the order, so no statement sees them
        timeless = sum(row[0] is None for parts in moved for _, rows in parts for row in rows)
        dead["NULL in order column ts"] += timeless
    found = {
        "rows": (_shown(cluster.rows()), _shown(row for _, row in oracle.rows["q"])),
        "late": (Counter(one[2] for one in cluster.letters("late")), late),
        "dead": (Counter(one[2] for one in cluster.letters("dead")), +dead),
    }
    for what, (ours, theirs) in found.items():
        if given.chained and what != "rows":
            continue  # a selection that several statements read is in each of them
        if ours != theirs:
            return f"{what}: {dict(ours - theirs)} too many, {dict(theirs - ours)} missing"
    return None


class Frame:
    """Stands for a DataFrame: it is known by what it is, and remembers what it is made of."""


def chained_job(script: Script, request: Request) -> Job:
    """The job of a script of which each statement but selections is a ``pss.sql`` of its own."""
    frames: dict[str, Any] = {"r": Frame(), "s": Frame()}
    selections: list[DeriveStream] = []
    for statement in (*script.derived, DeriveStream("", script.query)):
        steps: list[DeriveStream] = []
        asked = {*names_read(statement.query)}
        for step in reversed(selections):
            if step.name in asked:
                steps.insert(0, step)
                asked |= {*names_read(step.query)}
        own = Script(tuple(steps), statement.query)
        chained = unfold(own, {name: frames[name] for name in own.reads}, request)
        sources = [source(name, COLUMNS) for name in chained.given]
        job, plans = check(chained.script, sources, chained.request)
        if job.stateless:
            selections.append(statement)
        frames[statement.name] = remember(Frame(), chained, job, plans.query)  # type: ignore[arg-type]
    return job


def _shown(rows: Any) -> Counter[str]:
    return Counter(str(tuple(0.0 if value == 0 else value for value in row)) for row in rows)


def _canonical(row: Row) -> list[tuple[bool, float]]:
    """NULL first, NaN last, as rows of equal keys are taken."""
    return [(v is not None, math.inf if v != v else v or 0) for v in row]


def _by_trigger(triggers: list[Trigger]) -> list[tuple[int, Row]]:
    found: list[tuple[int, Row]] = []
    for parts in triggers:
        rows = [(lane, row) for lane, some in parts for row in some]
        found += sorted(rows, key=lambda one: (one[1][0] or 0, one[0], _canonical(one[1])))
    return found


def _by_key(triggers: list[Trigger]) -> list[tuple[int, Row]]:
    every = [(lane, row) for parts in triggers for lane, some in parts for row in some]
    timed = [one for one in every if one[1][0] is not None]
    highest = [[row[0] for lane, row in timed if lane == number] for number in (0, 1)]
    if not all(highest):
        return []
    frontier = min(map(max, highest))
    rows = [one for one in timed if one[1][0] < frontier]
    return sorted(rows, key=lambda one: (one[1][0], one[0], _canonical(one[1])))


def run(seed: int, count: int) -> int:
    """Try random cases; says which were wrong."""
    failed = 0
    for number in range(count):
        given = case(random.Random(f"{seed}/{number}"))
        try:
            with low_thresholds():
                problem = wrong(given)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        if problem is not None:
            failed += 1
            print(f"case {seed}/{number} ({given.mode}): {given.sql}\n  {problem}", flush=True)
    return failed
