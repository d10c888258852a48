"""Random scripts of aggregates: every call, windows of all kinds, groups, disorder and changes."""

from __future__ import annotations

import decimal
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from penstock.streams.literals import format_value
from tests.random_scripts import (
    DECIMALS,
    NUMBERS,
    PREDICATES,
    WORDS,
    Times,
    WindowKind,
    derivations,
    readers,
    window,
)
from tests.steps import Step, rare_steps

TIMES = {
    "int64": Times(pa.int64()),
    "int16": Times(pa.int16()),
    "uint16": Times(pa.uint16(), first=20),
    "decimal": Times(pa.decimal128(8, 1), step=decimal.Decimal("0.5")),
    "date": Times(pa.date32(), unit=" DAYS"),
    "seconds": Times(pa.timestamp("s"), unit=" SECONDS"),
    "milliseconds": Times(pa.timestamp("ms", "UTC"), step=500, unit=" SECONDS"),
    "int64 with a lead": Times(pa.int64(), lead=Fraction(4)),
}
"""Times that windows can slide along."""


def with_times(sql: str, times: Times) -> str:
    """A query that was written for int64 times, for others."""

    def clause(found: re.Match[str]) -> str:
        text = re.sub(r"(RANGE|SLIDE|SLACK) (\d+)", rf"\1 \2{times.unit}", found[0])
        return re.sub(r"START AT (\d+)", lambda at: f"START AT {literal(int(at[1]))}", text)

    def literal(time: int) -> str:
        return format_value(times.physical(time), times.type)

    return re.sub(r"\[RANGE[^]]*\]", clause, sql)


@dataclass(frozen=True)
class Columns:
    """The columns of a stream: a time, a number, a string, and perhaps a float and a decimal."""

    stream: str
    alias: str
    number: str
    word: str
    real: str = ""
    exact: str = ""

    def fill(self, template: str) -> str | None:
        """The template with the names of columns; None if it needs one that is missing."""
        names = {"n": self.number, "w": self.word, "f": self.real, "d": self.exact, "t": "t"}
        for key, name in names.items():
            if f"{{{key}}}" in template and not name:
                return None
            template = template.replace(f"{{{key}}}", f"{self.alias}.{name}")
        return template

    def several(self, templates: tuple[str, ...]) -> list[str]:
        return [text for text in map(self.fill, templates) if text is not None]


R = Columns("R", "r", "x", "s", "y", "d")
S = Columns("S", "s", "a", "n", "b", "e")
D = Columns("D", "d", "v", "w")

CALLS = (
    "COUNT(*)",
    "COUNT({n})",
    "SUM({n})",
    "AVG({n})",
    "MIN({n})",
    "MAX({n})",
    "VAR_POP({n})",
    "VAR_SAMP({n})",
    "STDDEV_POP({n})",
    "STDDEV_SAMP({n})",
    "COUNT(DISTINCT {n})",
    "FIRST({n})",
    "LAST({n})",
    "SUM({f})",
    "AVG({f})",
    "MIN({f})",
    "MAX({f})",
    "VAR_SAMP({f})",
    "STDDEV_POP({f})",
    "COUNT(DISTINCT {f})",
    "FIRST({f})",
    "LAST({f})",
    "MIN({w})",
    "MAX({w})",
    "COUNT(DISTINCT {w})",
    "FIRST({w})",
    "LAST({w})",
    "SUM({d})",
    "AVG({d})",
    "MIN({d})",
    "MAX({d})",
    "VAR_POP({d})",
    "COUNT(DISTINCT {d})",
    "LAST({d})",
    "MAX({t})",
    "MIN({n} > 0)",
    "SUM({n} * 3)",
    "SUM(CAST({n} AS decimal(20, 3)))",
    "COUNT(*) FILTER (WHERE {n} > 0)",
    "SUM({n}) FILTER (WHERE {w} = 'a')",
    "MAX({w}) FILTER (WHERE {n} IS NOT NULL)",
    "FIRST({n}) FILTER (WHERE {n} IS NOT NULL)",
    "AVG({f}) FILTER (WHERE {f} < 2)",
)
KEYS = ("{w}", "{n}", "{f}", "{d}", "{n} > 0", "UPPER({w})", "{n} % 2")
WHERES = ("{n} > 0", "{w} = 'a' OR {n} IS NULL", "{f} < 1.5", "{d} <> 0.5", "FALSE")
HAVINGS = ("COUNT(*) > 1", "SUM({n}) > 0", "MIN({w}) IS NULL OR COUNT({n}) < 2")
SORTS = ("COUNT(*) DESC", "MAX({n})", "MIN({w}) DESC NULLS FIRST", "SUM({n}) NULLS LAST", "1")


@dataclass(frozen=True)
class Shape:
    """The part of an aggregate that a change must keep. ``kind``: range, rows or whole."""

    columns: Columns
    kind: str
    slide: int
    rest: int
    start: int | None
    keys: tuple[str, ...]
    empty: bool
    ordered: bool


@st.composite
def shapes(draw: Any, columns: Columns) -> Shape:
    kind = draw(st.sampled_from(("range",) * 6 + ("rows", "rows", "whole")))
    slide = draw(st.sampled_from((1, 2, 3, 5)))
    keys = draw(st.lists(st.sampled_from(columns.several(KEYS)), max_size=2, unique=True))
    start = draw(st.sampled_from((None, None, None, 0, 3, 7))) if kind == "range" else None
    empty = not keys and kind != "whole" and draw(st.booleans())
    ordered = draw(st.integers(0, 4)) == 0
    rest = draw(st.integers(0, slide - 1))
    return Shape(columns, kind, slide, rest, start, tuple(keys), empty, ordered)


@st.composite
def windows(draw: Any, shape: Shape) -> tuple[Shape, str]:
    """A window clause, and the shape with what the next one must fit to."""
    if shape.kind == "whole":
        return shape, ""
    rest = draw(st.sampled_from((0, shape.rest)))
    size = rest + shape.slide * draw(st.sampled_from((0, 1, 1, 2, 3, 5)))
    size = size or shape.slide
    shape = replace(shape, rest=size % shape.slide)
    if shape.kind == "rows":
        return shape, f"[ROWS {size} SLIDE {shape.slide}]"
    slack = draw(st.sampled_from(("", "", " SLACK 0", " SLACK 1", " SLACK 3", " SLACK 20")))
    start = "" if shape.start is None else f" START AT {shape.start}"
    return shape, f"[RANGE {size} SLIDE {shape.slide}{start} WATTR t{slack}]"


@st.composite
def aggregates(draw: Any, columns: Columns, shape: Shape | None = None) -> tuple[Shape, str]:
    """A query that aggregates a stream, and the part of it that a change must keep."""
    shape, clause = draw(windows(draw(shapes(columns)) if shape is None else shape))
    few = st.lists(st.sampled_from(columns.several(CALLS)), max_size=4, unique=True)
    items = [f"{key} AS k{i}" for i, key in enumerate(shape.keys)]
    items += [f"{call} AS c{i}" for i, call in enumerate(draw(few))]
    if shape.kind != "whole" and draw(st.booleans()):
        items += ["window_start", "window_end"]
    items = items or ["COUNT(*) AS n"]
    text = f"SELECT {', '.join(items)} FROM {columns.stream} {clause} AS {columns.alias}"
    if draw(st.booleans()):
        text += f" WHERE {draw(st.sampled_from(columns.several(WHERES)))}"
    if shape.keys:
        text += f" GROUP BY {', '.join(shape.keys)}"
    if draw(st.integers(0, 4)) == 0:
        text += f" HAVING {draw(st.sampled_from(columns.several(HAVINGS)))}"
    elif not shape.keys and all("window_" in item for item in items):
        text += " HAVING COUNT(*) >= 0"
    if shape.ordered:
        text += f" ORDER BY {draw(st.sampled_from(columns.several(SORTS)))}"
        text += draw(st.sampled_from(("", " LIMIT 1", " LIMIT 2")))
    return shape, text + (" EMIT EMPTY" if shape.empty else "")


@dataclass(frozen=True)
class Sorted:
    """A query with ORDER BY: what it sorts, by which keys, and its LIMIT."""

    which: str
    order: str = ""
    limit: int | None = None

    @property
    def clause(self) -> str:
        order = f" ORDER BY {self.order}" if self.order else ""
        return order + ("" if self.limit is None else f" LIMIT {self.limit}")

    def may_become(self, other: Sorted) -> bool:
        """Whether no row has been let go that the other would want."""
        if self.limit is None:
            return True
        return self.order == other.order and other.limit is not None and other.limit <= self.limit


ORDERS = {
    "select": ("r.x DESC, r.t", "r.y, r.x", "r.s DESC"),
    "union": ("v, 2", "t DESC"),
    "join": ("s.a, r.s DESC", "r.x NULLS LAST"),
    "grouped": ("",),
}


@st.composite
def sorted_queries(draw: Any, shape: Sorted | None = None) -> tuple[Sorted, str]:
    """A bounded query that sorts at its end, or aggregates a join there.

    A change may be one that is refused; see :meth:`Sorted.may_become`.
    """
    which = draw(st.sampled_from(sorted(ORDERS))) if shape is None else shape.which
    limit = draw(st.sampled_from((None, None, 0, 2, 5))) if which != "grouped" else None
    shape = Sorted(which, draw(st.sampled_from(ORDERS[which])), limit)
    where = draw(st.sampled_from(R.several(WHERES)))
    if which == "select":
        return shape, f"SELECT r.t, r.x FROM R AS r WHERE {where}{shape.clause}"
    if which == "union":
        return shape, (
            f"SELECT r.x AS v, r.t AS t FROM R AS r WHERE {where} "
            f"UNION ALL SELECT s.a, s.t FROM S AS s{shape.clause}"
        )
    left, right = (window(draw, WindowKind(rows=True)) for _ in range(2))
    pairs = f"FROM R {left} AS r LEFT JOIN S {right} AS s ON {draw(st.sampled_from(PREDICATES))}"
    if which == "join":
        return shape, f"SELECT r.x, s.a {pairs}{shape.clause}"
    return shape, (
        f"SELECT r.s, COUNT(*) AS n, SUM(s.a) AS a, MAX(r.y) AS y, LAST(s.n) AS l {pairs} "
        f"WHERE {where} GROUP BY r.s"
    )


@st.composite
def derived_aggregates(draw: Any, shape: Shape | None = None) -> tuple[Shape, str]:
    """An aggregate of R with the columns t, v and w, so that a stream can be derived with it."""
    if shape is None:
        shape = replace(draw(shapes(R)), kind="range", keys=("r.s",), empty=False, ordered=False)
    shape, clause = draw(windows(shape))
    border = draw(st.sampled_from(("window_start", "window_end")))
    value = draw(st.sampled_from(("COUNT(*)", "SUM(r.x)", "COUNT(r.y)")))
    having = draw(st.sampled_from(("", " HAVING COUNT(*) > 1")))
    return shape, (
        f"SELECT {border} AS t, {value} AS v, r.s AS w FROM R {clause} AS r GROUP BY r.s{having}"
    )


@st.composite
def empty_aggregates(draw: Any, shape: Shape | None = None) -> tuple[Shape, str]:
    """Aggregates as :func:`derived_aggregates` draws them, with a row for every window."""
    if shape is None:
        shape = replace(draw(shapes(R)), kind="range", keys=(), empty=True, ordered=False)
    shape, clause = draw(windows(shape))
    border = draw(st.sampled_from(("window_start", "window_end")))
    return shape, (
        f"SELECT {border} AS t, SUM(r.x) AS v, MAX(r.s) AS w FROM R {clause} AS r "
        f"WHERE {draw(st.sampled_from(('TRUE', 'r.x > 0')))} EMIT EMPTY"
    )


SINGLES = st.sampled_from((0.0, -0.0, 1.5, -2.0, 0.125, 2.0**100, -(2.0**-100), 1.0))
ODD = st.sampled_from((float("nan"), float("inf"), float("-inf"), None))
DOUBLES = st.sampled_from((0.1, -0.1, 1e300, -1e300, 1.7e308, 5e-324, 3.0, 1e16, 0.0, -0.0))
MAKERS = {"joined": derivations, "grouped": derived_aggregates, "empty": empty_aggregates}
"""The kinds of D: a selection, union or join, an aggregate by group, one with empty windows."""


def row(draw: Any, stream: str, now: int) -> tuple[Any, ...]:
    """A tuple near a time, or some way behind it."""
    time = draw(st.sampled_from((now,) * 8 + (now - 1, now - 2, now - 3, now - 5, now - 12, None)))
    usual = SINGLES if stream == "R" else DOUBLES
    real = draw(ODD if draw(st.integers(0, 7)) == 0 else usual)
    return time, draw(NUMBERS), real, draw(WORDS), draw(DECIMALS)


@st.composite
def aggregate_scripts(draw: Any, derived: bool = False) -> list[Step]:
    """A script that installs aggregates among tuples, punctuations, changes, drops and ends.

    ``derived``: it derives a stream D first, of which some queries read, by itself or in a join.
    """
    script = _Script(draw)
    if derived:
        script.derive()
    for _ in range(draw(st.integers(1, 2))):
        script.install()
    verbs = ("tuple",) * 14 + ("punctuate", "change", "install", "rare", "empty")
    for _ in range(draw(st.integers(4, 36))):
        script.step(draw(st.sampled_from(verbs)))
    if draw(st.integers(0, 3)):
        script.steps.append(Step("end"))
    return script.steps


class _Script:
    """A script under way: what is installed and how it can be changed, what has ended, the time."""

    def __init__(self, draw: Any) -> None:
        self.steps: list[Step] = []
        self._draw = draw
        self._installed: dict[str, tuple[Any, Any]] = {}
        self._derived = False
        self._ended: set[str] = set()
        self._count = 0
        self._now = 12

    def derive(self) -> None:
        self._derived = True
        self._begin("derive", "D", self._draw(st.sampled_from(sorted(MAKERS.values(), key=str))))

    def _begin(self, verb: str, name: str, make: Any) -> None:
        """A query that ``make`` draws, and that can be changed to others that it draws."""
        shape, text = self._draw(make())
        self._installed[name] = (make, shape)
        self.steps.append(Step(verb, name, text))

    def install(self) -> None:
        name = f"q{self._count}"
        self._count += 1
        choice = self._draw(st.integers(0, 9))
        if self._derived and choice < 7:
            of_d = choice < 4
            self._begin("install", name, _over(D) if of_d else _reading)
        elif choice == 9:
            self._begin("install", name, sorted_queries)
        else:
            self._begin("install", name, _over(self._draw(st.sampled_from((R, R, S)))))

    def step(self, verb: str) -> None:
        stream = self._draw(st.sampled_from(("R", "R", "R", "S")))
        if verb == "install" and self._count < 3:
            self.install()
        elif verb == "change" and self._installed:
            self._change(self._draw(st.sampled_from(sorted(self._installed))))
        elif stream in self._ended:
            return
        elif verb == "punctuate":
            value = self._now + self._draw(st.integers(-6, 6))
            self.steps.append(Step("punctuate", stream, value))
        elif verb == "rare":
            self._rare(stream)
        elif verb == "empty":
            self.steps.append(Step("empty", stream))
        else:
            self._now += self._draw(st.sampled_from((0, 0, 0, 1, 1, 2, 5, 17)))
            self.steps.append(Step("tuple", stream, row(self._draw, stream, self._now)))

    def _change(self, name: str) -> None:
        make, before = self._installed[name]
        shape, text = self._draw(make(shape=before))
        if isinstance(before, Sorted) and not before.may_become(shape):
            self.steps.append(Step("refuse", name, text))
            return
        self._installed[name] = (make, shape)
        self.steps.append(Step("change", name, text))

    def _rare(self, stream: str) -> None:
        queries = sorted(self._installed.keys() - {"D"})
        self.steps += rare_steps(self._draw, stream, queries, self._ended, self._installed)


def _over(columns: Columns) -> Any:
    return lambda shape=None: aggregates(columns, shape)


def _reading(shape: Any = None) -> Any:
    return readers("D", shape)
