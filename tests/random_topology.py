"""Random scripts whose queries fit the blocks of FQP: selections, and joins of count windows."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from penstock import Topology, topology
from tests.random_scripts import ONE_SIDED, OUTPUTS, PREDICATES, _row
from tests.steps import Step, rare_steps

SELECTED = ("r.t AS rt, r.x + 1 AS x", "r.*", "r.s || '!' AS s, r.y", "r.x / r.t AS q, 1 AS one")
LARGEST = 6
"""The largest window of a query."""
BLOCK = 3
"""The window of a block of :func:`chain_to_span`: a join of LARGEST tuples spans two."""


def _condition(draw: Any) -> str:
    parts = draw(st.lists(st.sampled_from(ONE_SIDED), min_size=1, max_size=3))
    connected: str = draw(st.sampled_from((" AND ", " OR "))).join(f"({part})" for part in parts)
    return draw(st.sampled_from((connected, connected, f"NOT ({connected})")))  # type: ignore[no-any-return]


def _window(draw: Any, least: int = 0) -> int:
    size: int = draw(st.integers(least, LARGEST))
    return size


def blocks_to_span(branches: int) -> Topology:
    """Branches with a large block at the left for selections, then six that joins span."""
    text = topology(f"fqp:partial:{branches}x7:{BLOCK}").to_toml()
    for number in range(1, 7 * branches, 7):
        before = f"number = {number}\nwindow = {BLOCK}\n"
        assert before in text
        text = text.replace(before, f"number = {number}\nwindow = 40\n")
    return Topology.from_toml(text)


def _text(draw: Any, shape: tuple[str, ...], spanning: bool) -> str:
    """A query of a shape: what it reads, in order."""
    if len(shape) == 1:
        outputs = draw(st.sampled_from(SELECTED))
        return f"SELECT {outputs} FROM {shape[0]} AS r WHERE {_condition(draw)}"
    left, right = shape
    first, second = ("s", "r") if left == "S" else ("r", "s")
    least = BLOCK + 1 if spanning else 0  # a change never needs other blocks
    text = (
        f"SELECT {draw(st.sampled_from(OUTPUTS))} FROM {left} [ROWS {_window(draw, least)}] AS "
        f"{first} "
        f"JOIN {right} [ROWS {_window(draw)}] AS {second} ON {draw(st.sampled_from(PREDICATES))}"
    )
    if draw(st.integers(0, 2)) == 0:
        text += f" WHERE {_condition(draw)}"
    if not spanning and draw(st.integers(0, 3)) == 0:
        text += f" EMIT ORDER {draw(st.sampled_from(('outer', 'inner')))}"
    return text


@st.composite
def topology_scripts(draw: Any, spanning: bool = False, derives: bool = True) -> list[Step]:
    """A script with derived selections, selections, joins, changes and drops among tuples.

    ``spanning``: all joins have windows larger than BLOCK, and no order. ``derives``: there may be
    derived streams; where each branch is one block, no join could read them.
    """
    steps: list[Step] = []
    installed: dict[str, tuple[str, ...]] = {}
    derived: dict[str, str] = {}
    ended: set[str] = set()
    now = count = 0

    def derive(name: str) -> None:
        source = draw(st.sampled_from(("R", *derived)))
        steps.append(Step("derive", name, _derivation(source)))
        derived[name] = source

    def _derivation(source: str) -> str:
        return f"SELECT r.* FROM {source} AS r WHERE {_condition(draw)}"

    def install() -> None:
        nonlocal count
        sources = ("R", *derived)
        shapes = [(s,) for s in sources] + [(s, "S") for s in sources] + [("S", s) for s in sources]
        shape = draw(st.sampled_from(shapes))
        installed[f"q{count}"] = shape
        steps.append(Step("install", f"q{count}", _text(draw, shape, spanning)))
        count += 1

    if spanning or (derives and draw(st.booleans())):
        derive("D")  # in the large block, so that no join has it
    install()
    verbs = ("tuple",) * 12 + ("change", "install", "derive", "rare")
    for _ in range(draw(st.integers(0, 24))):
        verb, stream = draw(st.sampled_from(verbs)), draw(st.sampled_from(("R", "S")))
        if verb == "install" and len(installed) < 3:
            install()
        elif verb == "derive" and derives and len(derived) < 2:
            derive("E" if "D" in derived else "D")
        elif verb == "change" and (installed or derived):
            name = draw(st.sampled_from(sorted((*installed, *derived))))
            if name in derived:
                text = _derivation(derived[name])
            else:
                text = _text(draw, installed[name], spanning)
            steps.append(Step("change", name, text))
        elif stream in ended:
            continue
        elif verb == "rare":
            names = sorted(installed)
            steps += rare_steps(draw, stream, names, ended, installed)
        else:
            now += draw(st.sampled_from((0, 1, 2)))
            steps.append(Step("tuple", stream, _row(draw, now)))
    if draw(st.booleans()):
        steps.append(Step("end"))
    return steps


FLEET = (
    *("r.x = 0", "r.x = 1", "r.x = 2", "r.s = 'a'", "r.s = 'b'", "r.x IN (0, 2)", "r.y < 1.5"),
    *("r.x > 0", "r.x <= 1", "r.d <> 0.5", "r.x BETWEEN 0 AND 1", "r.s >= 'b'", "r.x IS NULL"),
    *("r.x < r.y", "r.s LIKE 'a%'"),
)
"""Conditions of many queries; the last ones are no comparisons of a column with constants."""


@st.composite
def fleet_scripts(draw: Any) -> list[Step]:
    """A script with many selections, two joins, and a derived stream; they come, change and go."""
    steps: list[Step] = [Step("derive", "D", "SELECT r.* FROM R AS r WHERE r.x >= 0")]
    installed: dict[str, tuple[str, ...]] = {}
    ended: set[str] = set()
    now = count = 0

    def text(shape: tuple[str, ...]) -> str:
        if len(shape) > 1:
            return _text(draw, shape, spanning=False)
        terms = draw(st.lists(st.sampled_from(FLEET), min_size=1, max_size=2))
        condition = draw(st.sampled_from((" AND ", " AND ", " OR "))).join(terms)
        outputs = draw(st.sampled_from(("r.t AS rt, r.s", "r.t AS rt, r.s", "r.x / r.t AS q")))
        return f"SELECT {outputs} FROM {shape[0]} AS r WHERE {condition}"

    def install() -> None:
        nonlocal count
        shape = draw(st.sampled_from((("R",), ("R",), ("R",), ("D",), ("R", "S"))))
        if len(shape) > 1 and sum(len(one) > 1 for one in installed.values()) == 2:
            shape = ("R",)
        installed[f"q{count}"] = shape
        steps.append(Step("install", f"q{count}", text(shape)))
        count += 1

    for _ in range(draw(st.integers(4, 8))):
        install()
    for _ in range(draw(st.integers(1, 20))):
        verb = draw(
            st.sampled_from(("tuple",) * 8 + ("change", "change", "install", "drop", "rare"))
        )
        stream = draw(st.sampled_from(("R", "R", "S")))
        if verb == "install":
            install()
        elif verb in ("change", "drop") and installed:
            name = draw(st.sampled_from(sorted(installed)))
            if verb == "drop":
                del installed[name]
                steps.append(Step("drop", name))
            else:
                steps.append(Step("change", name, text(installed[name])))
        elif stream in ended:
            continue
        elif verb == "rare":
            steps += rare_steps(draw, stream, [], ended, installed)
        else:
            now += draw(st.sampled_from((0, 1, 2)))
            steps.append(Step("tuple", stream, _row(draw, now)))
    if draw(st.booleans()):
        steps.append(Step("end"))
    return steps
