"""Random joins of three to ten streams: chains, stars, cycles, self-joins, windows of all kinds.

Some are trees with outer, semi and anti joins.

Windows are small, the smaller the more streams there are: the oracle goes through all combinations.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

COLUMNS = {
    "R": {"n": "x", "w": "s", "f": "y", "d": "d"},
    "S": {"n": "a", "w": "n", "f": "b", "d": "e"},
    "Q": {"n": "c", "w": "m", "f": "g", "d": "h"},
}
"""By stream: its columns with a number, a word, a float and a decimal."""
DERIVED = {"n": "v", "w": "w", "f": "v", "d": "v"}
"""The columns of a derived stream."""

EQUALITIES = ("{0n} = {1n}", "{0n} = {1n}", "{0w} = {1w}", "{0f} = {1f}", "{0d} = {1d}")
LINKS = (
    *EQUALITIES,
    "{0n} <= {1n}",
    "{0n} < {1n}",
    "{0n} <> {1n}",
    "ABS({0n} - {1n}) <= 1",
    "{0n} BETWEEN {1n} - 1 AND {1n} + 1",
    "{0t} <= {1t}",
    "{0w} < {1w}",
    "{0w} LIKE {1w} || '%'",
    "UPPER({0w}) = UPPER({1w})",
    "{0n} = {1n} OR {0w} = {1w}",
    "COALESCE({0n}, 0) = COALESCE({1n}, 0)",
    "{0n} + 1 = {1n}",
)
"""Conditions over two streams."""
OF_ONE = ("{0n} > 0", "{0n} IS NOT NULL", "{0w} = 'a' OR {0n} <> 1", "1 = 1")
OF_THREE = ("{0n} + {1n} > {2n}", "{0n} = {1n} OR {1w} = {2w}", "{0n} IN ({1n}, {2n})")
LENGTHS = {3: (1, 2, 3, 5), 4: (1, 2, 3), 5: (1, 2), **dict.fromkeys(range(6, 11), (1,))}
"""By number of streams: the sizes of their windows, beside 0."""


@dataclass(frozen=True)
class Shape:
    """The part of a join that a change must keep.

    ``rows``: which of its windows are count windows. ``whole``: none has an end. ``branch``: it is
    a branch of a union. ``order``: its EMIT ORDER, if any. ``kinds``: those of its joins; empty if
    all are inner.
    """

    streams: tuple[str, ...]
    rows: tuple[bool, ...]
    whole: bool = False
    branch: bool = False
    order: str = ""
    kinds: tuple[str, ...] = ()

    @property
    def visible(self) -> tuple[int, ...]:
        """The streams that a select list can name."""
        hidden = [side for side, kind in enumerate(self.kinds, 1) if kind in ("SEMI", "ANTI")]
        return tuple(side for side in range(len(self.streams)) if side not in hidden)


@st.composite
def join_kinds(draw: Any, rows: tuple[bool, ...]) -> tuple[str, ...]:
    """The kinds of the joins of a tree. To the right of one that is not inner, times decide."""
    joins = len(rows) - 1
    first = joins - 1 if any(rows) else draw(st.integers(0, joins - 1))
    special = draw(st.sampled_from(("LEFT", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI")))
    later = st.sampled_from(("", "", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"))
    return (*[""] * first, special, *(draw(later) for _ in range(joins - first - 1)))


@st.composite
def shapes(draw: Any, derived: tuple[str, ...] = ()) -> Shape:
    """What joins can be made of R, S, Q and the derived streams."""
    known = ("R", "S", "Q")
    count = draw(st.sampled_from((3, 3, 3, 4, 5)))
    some = st.sampled_from((*known, *derived, *derived))
    streams = draw(st.sampled_from((known, (known[0],) * 3, None, None)))
    if streams is None or derived:
        streams = tuple(draw(some) for _ in range(count))
    kinds = draw(st.sampled_from(("rows", "range", "mixed")))
    rows = tuple(kinds == "rows" or (kinds == "mixed" and draw(st.booleans())) for _ in streams)
    whole = len(streams) == 3 and draw(st.integers(0, 11)) == 0
    is_tree = draw(st.booleans())
    return Shape(
        streams,
        rows,
        whole,
        draw(st.integers(0, 5)) == 0,
        draw(st.sampled_from(("", "", "", "outer", "inner"))),
        draw(join_kinds((False,) * len(rows) if whole else rows)) if is_tree else (),
    )


@st.composite
def wide_shapes(draw: Any, kinds: bool) -> Shape:
    """Six to ten mentions of R, S and Q. ``kinds``: a tree with an outer, semi or anti join."""
    count = draw(st.integers(6, 10))
    streams = tuple(draw(st.permutations((*"RSQRSQRSQR",)))[:count])
    # The oracle goes through all combinations, and a time window has several tuples.
    timed = draw(st.sets(st.integers(0, count - 1), max_size=2))
    rows = tuple(side not in timed for side in range(count))
    order = draw(st.sampled_from(("", "inner")))
    return Shape(streams, rows, order=order, kinds=draw(join_kinds(rows)) if kinds else ())


@st.composite
def multiway_queries(
    draw: Any, shape: Shape | None = None, derived: tuple[str, ...] = ()
) -> tuple[Shape, str]:
    """A query of a join, and the part of it that a change must keep."""
    shape = draw(shapes(derived)) if shape is None else shape
    first, second, third = _three(shape)
    pair = (
        f"{{{first}t}} AS t, {{{second}n}} AS v",
        f"{{{third}t}} AS t, {{0n}} + {{{second}n}} AS v",
    )
    columns = draw(st.sampled_from(pair))
    if not shape.branch:
        times = ", ".join(f"{{{side}t}} AS t{side}" for side in shape.visible)
        star = () if len(shape.streams) > 3 else (f"m{second}.*, {{0n}} AS v",)
        columns = draw(st.sampled_from((columns, times, times, "1 AS one", *star)))
    query = f"SELECT {_filled(columns, shape)} {draw(_joins(shape))}"
    if shape.branch:
        of_one = COLUMNS["S"]["n"]
        query = draw(
            st.sampled_from(
                (
                    f"{query} UNION ALL SELECT t, {of_one} FROM S",
                    f"{query} UNION ALL SELECT t, {of_one} FROM S WHERE {of_one} > 0",
                )
            )
        )
    return shape, query + (f" EMIT ORDER {shape.order}" if shape.order else "")


@st.composite
def multiway_derivations(draw: Any, shape: Shape | None = None) -> tuple[Shape, str]:
    """A join with the columns t, v and w that a stream can be derived with, and its shape."""
    if shape is None:
        drawn = draw(shapes())
        rows = drawn.rows[:3]
        shape = Shape(drawn.streams[:3], rows, kinds=draw(join_kinds(rows)) if drawn.kinds else ())
    first, second, third = _three(shape)
    # A change may not give it columns of other types.
    values = f"{{{first}t}} AS t, CAST({{{second}n}}", f"{{{third}t}} AS t, CAST({{0n}}"
    columns = f"{draw(st.sampled_from(values))} AS BIGINT) AS v, {{{second}w}} AS w"
    return shape, f"SELECT {_filled(columns, shape)} {draw(_joins(shape))}"


def _three(shape: Shape) -> tuple[int, int, int]:
    """Three streams that a select list can name; the same ones if there are fewer."""
    visible = shape.visible
    return visible[0], visible[min(1, len(visible) - 1)], visible[min(2, len(visible) - 1)]


@st.composite
def _joins(draw: Any, shape: Shape) -> str:
    """FROM with its joins, and WHERE."""
    count = len(shape.streams)
    # A join of whole streams must link them all.
    kinds = ("chain", "star", "cycle") + (() if shape.whole else ("chain", "star", "free"))
    topology = draw(st.sampled_from(kinds))
    pairs = [(side - 1 if topology != "star" else 0, side) for side in range(1, count)]
    if topology == "cycle":
        pairs.append((count - 1, 0))
    if topology == "free":
        side = st.integers(0, count - 1)
        pairs = [
            pair
            for _ in range(draw(st.integers(0, 3)))
            if len({*(pair := (draw(side), draw(side)))}) == 2
        ]
    # Most conditions are equalities, so that some combinations remain.
    links = draw(st.sampled_from((EQUALITIES, LINKS, ("{0n} = {1n}",))))
    terms = [(max(pair), _link(draw(st.sampled_from(links)), pair)) for pair in pairs]
    for _ in range(draw(st.integers(0, 1))):
        side = draw(st.integers(0, count - 1))
        terms.append((max(side, 1), _link(draw(st.sampled_from(OF_ONE)), (side,))))
    if draw(st.integers(0, 3)) == 0:
        three = draw(st.permutations(range(count)))[:3]
        terms.append((max(three), _link(draw(st.sampled_from(OF_THREE)), tuple(three))))
    if shape.kinds:
        return draw(_tree(shape, terms))
    text = "FROM " + _stream(shape, 0, draw)
    where = draw(st.integers(0, 3)) == 0
    for side in range(1, count):
        own = [f"({term})" for place, term in terms if place == side]
        stream = _stream(shape, side, draw)
        if where or not own:
            text += draw(st.sampled_from((", ", " CROSS JOIN "))) + stream
        else:
            text += f" JOIN {stream} ON {' AND '.join(own)}"
    if where and terms:
        text += " WHERE " + " AND ".join(f"({term})" for _, term in terms)
    return _filled(text, shape)


@st.composite
def _tree(draw: Any, shape: Shape, terms: list[tuple[int, str]]) -> str:
    """FROM with joins of several kinds, and WHERE; conditions name no hidden stream."""
    text = "FROM " + _stream(shape, 0, draw)
    for side, kind in enumerate(shape.kinds, 1):
        known = {*shape.visible, side}
        own = [f"({term})" for place, term in terms if place == side and _reads(term) <= known]
        # A join of whole streams must link them all.
        if not any(len(_reads(term)) > 1 for term in own) and (shape.whole or not own):
            own.append(_link("{0n} = {1n}", (0, side)))
        on = " AND ".join(own)
        text += f" {kind} JOIN {_stream(shape, side, draw)} ON {on}"
    if draw(st.integers(0, 3)) == 0:
        one = draw(st.sampled_from(shape.visible))
        text += " WHERE " + _link(draw(st.sampled_from((*OF_ONE, "{0t} IS NULL"))), (one,))
    return _filled(text, shape)


def _reads(term: str) -> set[int]:
    return {int(number) for number in re.findall(r"{(\d+)", term)}


def _link(template: str, sides: tuple[int, ...]) -> str:
    """The template of a condition with the numbers of streams: ``{0n}`` is the first one's."""
    for place, side in enumerate(sides):
        template = template.replace(f"{{{place}", f"{{#{side}")
    return template.replace("{#", "{")


def _filled(text: str, shape: Shape) -> str:
    """The text with the columns of the streams, which have the aliases m0, m1 and so on."""
    for side, stream in enumerate(shape.streams):
        names = {**COLUMNS.get(stream, DERIVED), "t": "t"}
        for kind, name in names.items():
            text = text.replace(f"{{{side}{kind}}}", f"m{side}.{name}")
    return text


def _stream(shape: Shape, side: int, draw: Any) -> str:
    return f"{shape.streams[side]} {_window(shape, side, draw)} AS m{side}"


def _window(shape: Shape, side: int, draw: Any) -> str:
    lengths = LENGTHS[len(shape.streams)]
    if shape.whole:
        return "[UNBOUNDED]"
    if shape.rows[side]:
        size = draw(st.sampled_from((*lengths, *lengths, 0)))
        return f"[ROWS {size}]"
    size = draw(st.sampled_from((*lengths, "0 INCLUSIVE", "1 INCLUSIVE")))
    slack = draw(st.sampled_from(("", "", " SLACK 0", " SLACK 1", " SLACK 3")))
    return f"[RANGE {size} WATTR t{slack}]"
