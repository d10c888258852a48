"""Random scripts: streams, queries, changes and disorder, to compare an engine with the oracle."""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from penstock.streams.schema import Stream

R = Stream.of(
    "R",
    pa.schema(
        {
            "t": pa.int64(),
            "x": pa.int32(),
            "y": pa.float32(),
            "s": pa.string(),
            "d": pa.decimal128(6, 2),
        }
    ),
    bounded=True,
)
S = Stream.of(
    "S",
    pa.schema(
        {
            "t": pa.int64(),
            "a": pa.int32(),
            "b": pa.float64(),
            "n": pa.string(),
            "e": pa.decimal128(5, 1),
        }
    ),
    bounded=True,
)

PREDICATES = (
    "r.x < s.a",
    "r.x = s.a",
    "r.y <= s.b",
    "r.y = s.b",
    "r.s = s.n",
    "r.s <> s.n",
    "r.s < s.n",
    "r.x BETWEEN s.a - 1 AND s.a + 1",
    "ABS(r.x - s.a) <= 1",
    "r.x - s.a > -2",
    "r.y + s.b > 1",
    "r.y - r.x >= s.b",
    "r.d = s.e",
    "r.d > s.a",
    "r.d + s.e > 1",
    "r.x IN (s.a, 1)",
    "r.x NOT IN (s.a, 1)",
    "r.s LIKE s.n || '%'",
    "r.x = s.a OR r.s = s.n",
    "r.x = 1 OR s.a = 1",
    "NOT (r.x < s.a)",
    "NOT (r.x = s.a OR r.y < s.b)",
    "(r.x > 0 AND s.a > 0) OR r.y = s.b",
    "r.x IS NULL OR s.a = r.x",
    "r.x > 0",
    "s.a <> 1",
    "r.s = 'a'",
    "r.x = r.x AND s.n IS NOT NULL",
    "TRUE",
    "FALSE",
    "r.x / s.a > 1",
    "CASE WHEN r.x > 0 THEN s.a > 0 ELSE r.y < s.b END",
    "r.x * s.a < 3",
    "COALESCE(r.x, 0) = COALESCE(s.a, 0)",
    "r.t < s.t",
    "UPPER(r.s) = UPPER(s.n)",
)
ONE_SIDED = ("r.x > 0", "r.s = 'a' OR r.x IS NULL", "r.y < 1.5", "r.d <> 0.5", "1 = 1")
PADDED = ("s.a IS NULL", "r.x IS NOT NULL", "s.n = 'a' OR r.s = 'a'", "r.x = s.a")
OUTPUTS = (
    "r.t AS rt, s.t AS st",
    "*",
    "r.x, s.a, r.x + s.a AS sum",
    "s.*, r.s",
    "1 AS one",
    "CASE WHEN r.x IS NULL THEN s.n ELSE r.s END AS c, r.t AS rt, s.t AS st",
)
LEFT_OUTPUTS = ("r.*", "r.x + 1 AS x, r.t AS rt", "r.s || '!' AS s, r.y")
KINDS = ("JOIN", "JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN")


@dataclass(frozen=True)
class Step:
    """One step of a script: what to do, and with what."""

    verb: str
    subject: str = ""
    value: Any = None


@dataclass(frozen=True)
class WindowKind:
    """What a change may not alter of a window."""

    rows: bool


def window(draw: Any, kind: WindowKind) -> str:
    if kind.rows:
        return draw(
            st.sampled_from(("[ROWS 0]", "[NOW]", "[ROWS 1]", "[ROWS 2]", "[ROWS 3]", "[ROWS 7]"))
        )
    size = draw(st.sampled_from((1, 2, 3, 5, 9)))
    slack = draw(st.sampled_from(("", "", " SLACK 0", " SLACK 1", " SLACK 3")))
    return f"[RANGE {size} WATTR t{slack}]"


@st.composite
def queries(draw: Any, shape: Any = None) -> tuple[Any, str]:
    """A query, and the part of it that a change must keep."""
    if shape is None:
        kinds = (WindowKind(draw(st.booleans())), WindowKind(draw(st.booleans())))
        unbounded = draw(st.integers(0, 9)) == 0
        which = draw(st.sampled_from(("join",) * 6 + ("select", "union", "self")))
        shape = (which, draw(st.sampled_from(KINDS)), kinds, unbounded)
    which, join, kinds, unbounded = shape
    if which == "select":
        where = draw(st.sampled_from(ONE_SIDED))
        return shape, f"SELECT {draw(st.sampled_from(LEFT_OUTPUTS))} FROM R AS r WHERE {where}"
    if which == "union":
        where = draw(st.sampled_from(ONE_SIDED))
        return shape, (
            f"SELECT r.t AS t, r.x AS v FROM R AS r WHERE {where} "
            "UNION ALL SELECT s.t, s.a + 1 FROM S AS s"
        )
    left, right = ("[UNBOUNDED]" if unbounded else window(draw, kind) for kind in kinds)
    terms = draw(st.lists(st.sampled_from(PREDICATES), min_size=1, max_size=3))
    on = terms[0]
    for term in terms[1:]:
        on = f"({on}) {draw(st.sampled_from(('AND', 'AND', 'OR')))} ({term})"
    other = "S"
    if which == "self":
        on, other = draw(st.sampled_from(("r.x = s.x", "r.x < s.x OR r.s = s.s", "TRUE"))), "R"
    semi = join in ("SEMI JOIN", "ANTI JOIN")
    outputs = LEFT_OUTPUTS if semi else OUTPUTS
    if which == "self" and not semi:
        outputs = ("r.t AS rt, s.t AS st, r.x, s.s",)
    wheres = ONE_SIDED if semi else (ONE_SIDED[0],) if which == "self" else PADDED
    where = f" WHERE {draw(st.sampled_from(wheres))}" if draw(st.booleans()) else ""
    return shape, (
        f"SELECT {draw(st.sampled_from(outputs))} FROM R {left} AS r {join} {other} {right} AS s "
        f"ON {on}{where}"
    )


NUMBERS = st.sampled_from((0, 1, -1, 2, 3, None, 2**31 - 1, -(2**31)))
FLOATS = st.sampled_from((0.0, -0.0, 1.5, -2.0, float("nan"), float("inf"), None, 1.0))
WORDS = st.sampled_from(("a", "b", "", "ab", "A", None))
DECIMALS = st.sampled_from((None, *map(decimal.Decimal, ("0", "0.5", "-1.5", "3", "2"))))


@st.composite
def scripts(draw: Any) -> list[Step]:
    """A script that installs a few queries among tuples, punctuations, changes and ends."""
    steps = []
    installed: dict[str, Any] = {}
    ended: set[str] = set()
    now = 0
    for _ in range(draw(st.integers(1, 2))):
        steps.append(_install(draw, steps, installed))
    for _ in range(draw(st.integers(0, 24))):
        verb = draw(st.sampled_from(("tuple",) * 14 + ("punctuate", "change", "install", "rare")))
        stream = draw(st.sampled_from(("R", "S")))
        if verb == "install" and len(installed) < 3:
            steps.append(_install(draw, steps, installed))
        elif verb == "change" and installed:
            name = draw(st.sampled_from(sorted(installed)))
            steps.append(Step("change", name, draw(queries(installed[name]))[1]))
        elif stream in ended:
            continue
        elif verb == "punctuate":
            steps.append(Step("punctuate", stream, now + draw(st.integers(-4, 3))))
        elif verb == "rare":
            rare = draw(st.sampled_from(("end", "malformed", "drop")))
            if rare == "end":
                ended.add(stream)
                steps.append(Step("end", stream))
            elif rare == "malformed":
                steps.append(Step("malformed", stream, "'?'"))
            elif installed:
                name = draw(st.sampled_from(sorted(installed)))
                del installed[name]
                steps.append(Step("drop", name))
        else:
            now += draw(st.sampled_from((0, 0, 1, 1, 2, 5)))
            steps.append(Step("tuple", stream, _row(draw, now)))
    if draw(st.booleans()):
        steps.append(Step("end"))
    return steps


def _install(draw: Any, steps: list[Step], installed: dict[str, Any]) -> Step:
    name = f"q{sum(step.verb == 'install' for step in steps)}"
    installed[name], text = draw(queries())
    return Step("install", name, text)


def _row(draw: Any, now: int) -> tuple[Any, ...]:
    time = draw(st.sampled_from((now,) * 8 + (now - 1, now - 2, now - 5, None)))
    return (time, draw(NUMBERS), draw(FLOATS), draw(WORDS), draw(DECIMALS))
