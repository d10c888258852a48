"""Random scripts: streams, queries, changes and disorder, to compare an engine with the oracle."""

from __future__ import annotations

import decimal
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from penstock.streams.schema import Stream
from tests.random_multiway import Shape, multiway_derivations, multiway_queries
from tests.steps import Step, rare_steps

MULTIWAY = True
"""Whether random scripts join three to five streams too."""

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
Q = Stream.of(
    "Q",
    pa.schema(
        {
            "t": pa.int64(),
            "c": pa.int64(),
            "g": pa.float32(),
            "m": pa.string(),
            "h": pa.decimal128(7, 3),
        }
    ),
    bounded=True,
)


@dataclass(frozen=True)
class Times:
    """The type of a script's times, the length of one step of time, and its SQL unit."""

    type: pa.DataType
    step: Any = 1
    unit: str = ""
    first: int = 0
    lead: Fraction | None = None

    @property
    def streams(self) -> dict[str, Stream]:
        """R, S and Q with times of this type, by name."""
        time = pa.field("t", self.type)
        streams = {s.name: replace(s, schema=s.schema.set(0, time)) for s in (R, S, Q)}
        if self.lead is None:
            return streams
        return {n: replace(s, time="t", max_lead=self.lead) for n, s in streams.items()}

    def physical(self, time: int) -> Any:
        return (time + self.first) * self.step

    def text(self, sql: str) -> str:
        return re.sub(r"(RANGE|SLACK) (\d+)", rf"\1 \2{self.unit}", sql)


TIMES = {
    "int64": Times(pa.int64()),
    "int8": Times(pa.int8()),
    "uint16": Times(pa.uint16(), first=99),
    "float": Times(pa.float32(), step=0.5),
    "double": Times(pa.float64(), step=0.25),
    "decimal": Times(pa.decimal128(8, 1), step=decimal.Decimal("0.5")),
    "date": Times(pa.date32(), unit=" DAYS"),
    "seconds": Times(pa.timestamp("s"), unit=" SECONDS"),
    "milliseconds": Times(pa.timestamp("ms", "UTC"), step=500, unit=" SECONDS"),
    "int64 with a lead": Times(pa.int64(), lead=Fraction(2)),
    "double with a lead": Times(pa.float64(), step=0.25, lead=Fraction(1, 2)),
    "milliseconds with a lead": Times(
        pa.timestamp("ms", "UTC"), step=500, unit=" SECONDS", lead=Fraction(3, 4)
    ),
}
"""Times for which a script of int64 times makes sense too."""


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
SIMPLE = (
    "r.x < s.a",
    "r.x = s.a",
    "r.x <> s.a",
    "r.y <= s.b",
    "r.y = s.b",
    "r.s = s.n",
    "r.x BETWEEN s.a - 1 AND s.a + 1",
    "r.y BETWEEN s.b - 1 AND s.b + 1",
    "ABS(r.x - s.a) <= 1",
    "r.x - s.a > -2",
    "r.y + s.b > 1",
    "r.y - r.x >= s.b",
    "r.d <> 0.5",
    "NOT (r.x = s.a OR r.y < s.b)",
    "(r.x > 0 AND s.a > 0) OR r.y = s.b",
    "r.x > 0",
    "r.y < 1.5",
    "s.a <> 1",
    "r.t < s.t",
    "r.t + 1 = s.t",
    "r.x * 2 < s.a",
    "TRUE",
)
"""Those that need nothing but comparisons and sums."""
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
class WindowKind:
    """The part of a window that a change may not alter."""

    rows: bool


def window(draw: Any, kind: WindowKind) -> str:
    if kind.rows:
        return draw(
            st.sampled_from(("[ROWS 0]", "[NOW]", "[ROWS 1]", "[ROWS 2]", "[ROWS 3]", "[ROWS 7]"))
        )
    size = draw(st.sampled_from(("1", "2", "3", "5", "9", "0 INCLUSIVE", "2 INCLUSIVE")))
    slack = draw(st.sampled_from(("", "", " SLACK 0", " SLACK 1", " SLACK 3")))
    return f"[RANGE {size} WATTR t{slack}]"


@st.composite
def queries(draw: Any, shape: Any = None, simple: bool = False) -> tuple[Any, str]:
    """A query, and the part of it that a change must keep. ``simple``: see ``SIMPLE``."""
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
    predicates = SIMPLE if simple else PREDICATES
    terms = draw(st.lists(st.sampled_from(predicates), min_size=1, max_size=3))
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
    where = f" WHERE {draw(st.sampled_from(wheres))}" if not simple and draw(st.booleans()) else ""
    return shape, (
        f"SELECT {draw(st.sampled_from(outputs))} FROM R {left} AS r {join} {other} {right} AS s "
        f"ON {on}{where}"
    )


COMPUTED = "COALESCE(r.t, r.t)"
OF_D = ("d.v > 0", "d.w = 'a' OR d.v IS NULL", "TRUE")
WITH_D = ("TRUE", "d.v = s.a", "d.v <= s.a", "d.w = s.n", "d.t <= s.t", "d.v - s.a > 0")

NUMBERS = st.sampled_from((0, 1, -1, 2, 3, None, 2**31 - 1, -(2**31)))
FLOATS = st.sampled_from((0.0, -0.0, 1.5, -2.0, float("nan"), float("inf"), None, 1.0))
WORDS = st.sampled_from(("a", "b", "", "ab", "A", None))
DECIMALS = st.sampled_from((None, *map(decimal.Decimal, ("0", "0.5", "-1.5", "3", "2"))))
ALIKE = ((1, 1.5, "a", decimal.Decimal("0.5")), (2, 0.0, "ab", decimal.Decimal("2")))


@st.composite
def scripts(
    draw: Any, derived: bool = False, count_windows: bool = False, multiway: bool | None = None
) -> list[Step]:
    """A script that installs a few queries among tuples, punctuations, changes and ends.

    ``derived``: it derives a stream D first, which queries read. ``count_windows``: almost all
    queries are inner joins of count windows, and values are rarely NULL. ``multiway``: some
    queries join three to five streams; None: if ``MULTIWAY`` says so.
    """
    script = _Script(draw, count_windows, MULTIWAY if multiway is None else multiway)
    if derived:
        script.derive()
    for _ in range(draw(st.integers(1, 2))):
        script.install()
    verbs = ("tuple",) * 14 + ("punctuate", "change", "install", "rare")
    if derived:
        verbs += ("derive",)
    for _ in range(draw(st.integers(0, 24))):
        script.step(draw(st.sampled_from(verbs)))
    if draw(st.booleans()):
        script.steps.append(Step("end"))
    return script.steps


class _Script:
    """A script under way: what is installed, what has ended, and the time."""

    def __init__(self, draw: Any, count_windows: bool, multiway: bool) -> None:
        self.steps: list[Step] = []
        self._draw = draw
        # About half of the scripts join three streams or more, and give tuples to all of them.
        self._multiway = multiway and draw(st.booleans())
        self._streams = ("R", "S", "Q") if self._multiway else ("R", "S")
        self._count_windows = count_windows
        self._installed: dict[str, Any] = {}
        self._derived: set[str] = set()
        self._ended: set[str] = set()
        self._count = 0
        self._now = 0

    def derive(self) -> None:
        """D first; then, sometimes, an E that is derived of it, and an F."""
        if "D" not in self._derived:
            joins = self._multiway and self._draw(st.booleans())
            self._derive("D", *self._draw(multiway_derivations() if joins else derivations()))
            if self._draw(st.integers(0, 3)):
                return
        if "E" not in self._derived:
            self._derive("E", *self._draw(derivations("of D")))
        elif "F" not in self._derived:
            self._derive("F", *self._draw(derivations()))

    def _derive(self, name: str, shape: Any, text: str) -> None:
        self.steps.append(Step("derive", name, text))
        self._installed[name] = shape
        self._derived.add(name)

    def install(self) -> None:
        name = f"q{self._count}"
        self._count += 1
        if self._multiway and self._draw(st.integers(0, 3)):
            known = tuple(sorted(self._derived))
            self._installed[name], text = self._draw(multiway_queries(derived=known))
        elif self._derived:
            source = self._draw(st.sampled_from(sorted(self._derived)))
            self._installed[name], text = self._draw(readers(source))
        elif self._count_windows and self._draw(st.integers(0, 9)):
            unbounded = self._draw(st.integers(0, 4)) == 0
            shape = ("join", "JOIN", (WindowKind(True), WindowKind(True)), unbounded)
            self._installed[name], text = self._draw(queries(shape, self._is_simple()))
        else:
            self._installed[name], text = self._draw(queries())
        self.steps.append(Step("install", name, text))

    def step(self, verb: str) -> None:
        stream = self._draw(st.sampled_from(self._streams))
        if verb == "install" and self._count < 3:
            self.install()
        elif verb == "derive":
            self.derive()
        elif verb == "change" and self._installed:
            self._change(self._draw(st.sampled_from(sorted(self._installed))))
        elif stream in self._ended:
            return
        elif verb == "punctuate":
            value = self._now + self._draw(st.integers(-4, 3))
            self.steps.append(Step("punctuate", stream, value))
        elif verb == "rare":
            self._rare(stream)
        else:
            self._now += self._draw(st.sampled_from((0, 0, 1, 1, 2, 5)))
            row = _row(self._draw, self._now)
            if self._count_windows and self._draw(st.integers(0, 5)):
                known = (self._now, 1, 1.5, "a", decimal.Decimal("0.5"))
                row = tuple(k if v is None else v for v, k in zip(row, known, strict=True))
            if self._multiway and self._draw(st.integers(0, 3)):
                # Few values, so that three tuples and more are equal.
                row = (row[0], *self._draw(st.sampled_from(ALIKE)))
            self.steps.append(Step("tuple", stream, row))

    def _change(self, name: str) -> None:
        shape = self._installed[name]
        if isinstance(shape, Shape):
            of_shape = multiway_derivations if name in self._derived else multiway_queries
            text = self._draw(of_shape(shape))[1]
        elif name in self._derived:
            text = self._draw(derivations(shape))[1]
        elif self._derived:
            text = self._draw(readers(shape[0], shape))[1]
        else:
            text = self._draw(queries(shape, self._count_windows and self._is_simple()))[1]
        self.steps.append(Step("change", name, text))

    def _is_simple(self) -> bool:
        return self._draw(st.integers(0, 5)) > 0

    def _rare(self, stream: str) -> None:
        queries_there = sorted(self._installed.keys() - self._derived)
        self.steps += rare_steps(self._draw, stream, queries_there, self._ended, self._installed)


@st.composite
def derivations(draw: Any, shape: str | None = None) -> tuple[str, str]:
    """A query with the columns t, v and w that a stream can be derived with, and its shape.

    A shape is what a change must keep. ``of D`` is the one that reads the derived stream D.
    """
    if shape is None:
        kinds = ("JOIN", "JOIN", "LEFT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN")
        shape = draw(st.sampled_from(("select", "union", "rows", *kinds)))
    columns = "r.t AS t, r.x AS v, r.s AS w"
    if shape == "of D":
        return shape, f"SELECT d.t, d.v, d.w FROM D AS d WHERE {draw(st.sampled_from(OF_D))}"
    if shape == "select":
        # A computed time has no punctuation.
        columns = draw(st.sampled_from((columns, columns, columns.replace("r.t", f"{COMPUTED}"))))
        return shape, f"SELECT {columns} FROM R AS r WHERE {draw(st.sampled_from(ONE_SIDED))}"
    if shape == "union":
        return shape, (
            f"SELECT {columns} FROM R AS r WHERE {draw(st.sampled_from(ONE_SIDED))} "
            "UNION ALL SELECT s.t, s.a, s.n FROM S AS s"
        )
    join = "JOIN" if shape == "rows" else shape
    left, right = (window(draw, WindowKind(shape == "rows" and side == 1)) for side in (0, 1))
    if join not in ("SEMI JOIN", "ANTI JOIN"):
        # Which column is the time of D: a change may alter that too.
        columns = draw(st.sampled_from(("r.t AS t", "s.t AS t"))) + ", r.x AS v, s.n AS w"
    on = draw(st.sampled_from(PREDICATES))
    return shape, f"SELECT {columns} FROM R {left} AS r {join} S {right} AS s ON {on}"


@st.composite
def readers(draw: Any, source: str, shape: Any = None) -> tuple[Any, str]:
    """A query that reads a derived stream, and the part of it that a change must keep."""
    if shape is None:
        kinds = (WindowKind(draw(st.booleans())), WindowKind(draw(st.booleans())))
        which = draw(st.sampled_from(("left", "left", "right", "self", "select", "union")))
        shape = (source, which, draw(st.sampled_from(KINDS)), kinds)
    source, which, join, kinds = shape
    if which == "select":
        return shape, f"SELECT d.t, d.v FROM {source} AS d WHERE {draw(st.sampled_from(OF_D))}"
    if which == "union":
        return shape, (
            f"SELECT d.t, d.v FROM {source} AS d UNION ALL SELECT s.t, s.a FROM S AS s "
            f"WHERE {draw(st.sampled_from(('s.a > 0', 'TRUE')))}"
        )
    left, right = (window(draw, kind) for kind in kinds)
    on = draw(st.sampled_from(WITH_D))
    tables = {
        "left": f"{source} {left} AS d {join} S {right} AS s",
        "right": f"S {left} AS s {join} {source} {right} AS d",
        "self": f"{source} {left} AS d {join} {source} {right} AS s",
    }[which]
    if which == "self":
        on = on.replace("s.a", "s.v").replace("s.n", "s.w")
    outputs = "d.t AS dt, s.t AS st, d.v, d.w"
    if join in ("SEMI JOIN", "ANTI JOIN"):
        outputs = "s.t, s.a" if which == "right" else "d.t, d.v"
    return shape, f"SELECT {outputs} FROM {tables} ON {on}"


def _row(draw: Any, now: int) -> tuple[Any, ...]:
    time = draw(st.sampled_from((now,) * 8 + (now - 1, now - 2, now - 5, None)))
    return (time, draw(NUMBERS), draw(FLOATS), draw(WORDS), draw(DECIMALS))
