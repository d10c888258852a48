"""The order in which a tuple of each input of a multiway join probes the other windows.

A tuple that arrives is the first member of a combination; each stage adds a member of one more
input. A stage evaluates the terms of the predicate whose inputs are all bound by then. Equalities
are transitive, so that ``a.k = b.k AND b.k = c.k`` links a with c too: the expressions of an
*equality class* are all equal in a row, and a stage compares one of its input with one that is
bound.

The next input is one that an equality links with those that are bound, else one that any term
links, else any; among those the one with the smallest count window, else the first in FROM.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.program.isa.block_instructions import JoinStreams, Program
from penstock.program.isa.flow import ANY_FLOW, DESIGNS, FlowChoice
from penstock.sql.expressions import TRUE, Call, Column, Expression, conjuncts, sides, walk
from penstock.streams.display import listed
from penstock.streams.windows import Rows, Window

ASSUMED_WINDOW = 1 << 14
"""Tuples that a window without a known number of them is taken to hold."""
ASSUMED_MATCH = 0.1
"""The match probability of a condition that is no equality, if it is not known."""
EQUALITY, TERM, NOTHING = "equality", "condition", "cross product"
"""How the input of a stage is linked with those that are bound."""


@dataclass(frozen=True)
class ProbeStage:
    """One stage: the window that is probed, and what the new member must satisfy.

    ``bound`` are the inputs that combinations have members of, the origin first; ``terms`` read
    these and ``input``.
    """

    input: int
    bound: tuple[int, ...]
    terms: tuple[Expression, ...]
    link: str


@dataclass(frozen=True)
class MatchRates:
    """What a sample found: for each stage of an order, the partners of one combination.

    None where no combination of the sample came so far.
    """

    tuples: int
    rates: tuple[float | None, ...]


@dataclass(frozen=True)
class ProbeOrder:
    """The stages of an origin, and the condition that a tuple of it must satisfy by itself."""

    origin: int
    filter: tuple[Expression, ...]
    stages: tuple[ProbeStage, ...]


class JoinTerms:
    """The terms of a multiway join's predicate: equality classes, and the rest."""

    def __init__(self, join: JoinStreams) -> None:
        self.join = join
        self.classes: list[list[Expression]] = []
        self.others: list[Expression] = []
        for term in (*conjuncts(join.compiled), *conjuncts(join.residual)):
            if _is_equality(term):
                assert isinstance(term, Call)
                self._unite(*term.args)
            else:
                self.others.append(term)
        # A join of many streams asks for these at every stage of every order.
        self._inputs = [[next(iter(sides(one))) for one in members] for members in self.classes]
        self._linked = [frozenset(inputs) for inputs in self._inputs]
        self._read = [sides(term) for term in self.others]
        self._own = [conjuncts(condition) for condition in join.filters]

    def _unite(self, one: Expression, other: Expression) -> None:
        found = [c for c in self.classes if one in c or other in c]
        self.classes = [c for c in self.classes if c not in found]
        merged = dict.fromkeys(e for c in found for e in c)
        self.classes.append(list({**merged, one: None, other: None}))

    def link(self, input: int, bound: tuple[int, ...]) -> str:
        """How the terms that a stage evaluates link its input."""
        if any(input in inputs and not inputs.isdisjoint(bound) for inputs in self._linked):
            return EQUALITY
        return NOTHING if next(self._terms_with(input, bound), None) is None else TERM

    def of_stage(self, input: int, bound: tuple[int, ...]) -> tuple[tuple[Expression, ...], str]:
        """The terms that a stage evaluates, and how they link its input."""
        terms: list[Expression] = []
        for members, inputs in zip(self.classes, self._inputs, strict=True):
            mine = [one for one, its in zip(members, inputs, strict=True) if its == input]
            known = [one for one, its in zip(members, inputs, strict=True) if its in bound]
            # All members of a class that are bound are equal already, so one of them is enough.
            first, *rest = (*known[:1], *mine) or (TRUE,)
            terms += [Call("eq", (first, one), pa.bool_()) for one in rest]
        terms += self._terms_with(input, bound)
        return (*terms, *self._own[input]), self.link(input, bound)

    def _terms_with(self, input: int, bound: tuple[int, ...]) -> Iterator[Expression]:
        """The terms, beside equalities, that read the input and none that is not bound."""
        inside = {*bound, input}
        for term, read in zip(self.others, self._read, strict=True):
            if input in read and read <= inside:
                yield term

    def of_origin(self, origin: int) -> tuple[Expression, ...]:
        """What a tuple that arrives must satisfy by itself."""
        return (*self.of_stage(origin, ())[0],)


def _is_equality(term: Expression) -> bool:
    """Whether it compares an expression of one input with one of another."""
    if not isinstance(term, Call) or term.op != "eq":
        return False
    one, other = (sides(arg) for arg in term.args)
    return len(one) == len(other) == 1 and one != other


def probe_order(join: JoinStreams, terms: JoinTerms, origin: int) -> ProbeOrder:
    """The order of an origin, as the predicate and the windows suggest it."""
    rest = [i for i in range(join.core) if i != origin]
    order: list[int] = []
    while rest:
        bound = (origin, *order)

        def cost(input: int, bound: tuple[int, ...] = bound) -> tuple[int, float, int]:
            link = (EQUALITY, TERM, NOTHING).index(terms.link(input, bound))
            window = join.windows[input]
            return link, window.size if isinstance(window, Rows) else float("inf"), input

        best = min(rest, key=cost)
        order.append(best)
        rest.remove(best)
    return staged(terms, origin, tuple(order))


def fixed_order(terms: JoinTerms, origin: int) -> ProbeOrder:
    """The order of the hardware: from the origin's place in FROM around (Najafi 2019 §6.4.9)."""
    streams = terms.join.core
    return staged(terms, origin, tuple((origin + i) % streams for i in range(1, streams)))


def staged(terms: JoinTerms, origin: int, order: tuple[int, ...]) -> ProbeOrder:
    """The stages of an origin that probes in this order."""
    stages = []
    for number, input in enumerate(order):
        bound = (origin, *order[:number])
        stages.append(ProbeStage(input, bound, *terms.of_stage(input, bound)))
    return ProbeOrder(origin, terms.of_origin(origin), tuple(stages))


def step_stage(join: JoinStreams, number: int) -> ProbeStage:
    """The stage by which combinations of the inputs before ``number`` probe that one's window."""
    terms = conjuncts(join.steps[number - join.core].on)
    across = [term for term in terms if len(sides(term)) > 1]
    link = EQUALITY if any(map(_is_equality, across)) else TERM if across else NOTHING
    return ProbeStage(number, tuple(range(number)), terms, link)


def assumed_sizes(windows: Sequence[Window]) -> list[int]:
    """The tuples that windows are taken to hold."""
    return [w.size if isinstance(w, Rows) else ASSUMED_WINDOW for w in windows]


def assumed_rate(stage: ProbeStage, sizes: Sequence[float]) -> float:
    """The partners of a combination at a stage: one in the larger window for an equality."""
    here = sizes[stage.input]
    if stage.link == EQUALITY:
        return here / max(1, here, *(sizes[number] for number in stage.bound))
    return here if stage.link == NOTHING else ASSUMED_MATCH * here


def explain_orders(join: JoinStreams, flow: FlowChoice = ANY_FLOW) -> list[str]:
    """The lines of EXPLAIN about the probe order of each input; none for a join of two.

    Nor for a design that is asked for and has an order of its own.
    """
    if len(join.inputs) == 2:
        return []
    terms, sizes = JoinTerms(join), assumed_sizes(join.windows)
    lines = []
    design = DESIGNS.get(flow.design or "")
    has_orders = join.core > 1 and not (design and design.own_order)
    for origin in range(join.core if has_orders else 0):
        order = probe_order(join, terms, origin)
        if flow.probe_order == "fixed":
            order = fixed_order(terms, origin)
        rates = [assumed_rate(stage, sizes) for stage in order.stages]
        lines.append(f"{_explained(join, order, rates)}; assumed")
    for number, step in enumerate(join.steps, start=join.core):
        what = "the tuples" if number == 1 else "the combinations"
        hidden = [i for i, one in enumerate(join.steps, start=join.core) if one.hides]
        left = listed(_named(join, input) for input in range(number) if input not in hidden)
        link = _LINKS[step_stage(join, number).link]
        lines.append(f"{step.kind} join: keeps {what} of {left}; {_named(join, number)} by {link}")
    return lines


def explain_order(join: JoinStreams, order: ProbeOrder, measured: MatchRates | None = None) -> str:
    """The line of EXPLAIN about a probe order, with match rates where a sample measured them."""
    rates = [None] * len(order.stages) if measured is None else measured.rates
    told = _explained(join, order, rates)
    return told if measured is None else f"{told}; measured with {measured.tuples} tuples"


def _explained(join: JoinStreams, order: ProbeOrder, rates: Sequence[float | None]) -> str:
    path = []
    for stage, rate in zip(order.stages, rates, strict=True):
        partners = "partner" if rate == 1 else "partners"
        found = "" if rate is None else f" ({rate:.3g} {partners})"
        path.append(f"{_named(join, stage.input)} by {_LINKS[stage.link]}{found}")
    return f"probe order of {_named(join, order.origin)}: {', then '.join(path)}"


_LINKS = {EQUALITY: "an equality", TERM: "a condition", NOTHING: "nothing, all of it"}


def cross_products(program: Program) -> list[str]:
    """Warnings of joins that combine all tuples of some inputs."""
    return [warning for warning in map(_cross_product, program.joins) if warning is not None]


def _cross_product(join: JoinStreams) -> str | None:
    """A warning if no condition links some inputs of three and more with the others; else None."""
    if len(join.inputs) == 2:
        return None
    conditions = (join.compiled, join.residual, *(step.on for step in join.steps))
    edges = [sides(term) for condition in conditions for term in conjuncts(condition)]
    linked = {0}
    while more := [edge for edge in edges if edge & linked and not edge <= linked]:
        linked.update(*more)
    apart = [_named(join, i) for i in range(len(join.inputs)) if i not in linked]
    if not apart:
        return _cross_stages(join)
    # A semi or anti join adds no members; its tuple decides combinations of the others.
    hidden = {input for input, one in enumerate(join.steps, start=join.core) if one.hides}
    windows = [window for input, window in enumerate(join.windows) if input not in hidden]
    known = [window.size for window in windows if isinstance(window, Rows)]
    estimate = "as many rows as the other windows have combinations"
    if len(known) == len(windows):
        most = math.prod(known) // (1 if hidden else max(1, min(known)))
        estimate = f"up to {most:,} rows"
    return (
        f"no condition links {', '.join(apart)} with {_named(join, 0)}: "
        f"an arrival can make {estimate}"
    )


def _cross_stages(join: JoinStreams) -> str | None:
    """A warning if every tuple that arrives must be combined with a whole window; else None."""
    if join.steps:
        return None
    terms = JoinTerms(join)
    orders = [probe_order(join, terms, origin) for origin in range(len(join.inputs))]
    crossed = [[s.input for s in order.stages if s.link == NOTHING] for order in orders]
    if not all(crossed):
        return None
    sizes = [w.size if isinstance(w, Rows) else None for w in join.windows]
    known = [[size for i in inputs if (size := sizes[i]) is not None] for inputs in crossed]
    estimate = "as many intermediate results as windows have combinations"
    if all(len(some) == len(inputs) for some, inputs in zip(known, crossed, strict=True)):
        estimate = f"up to {max(map(math.prod, known)):,} intermediate results"
    return (
        f"no condition links two streams alone: an arrival can make {estimate}; a condition on two "
        "of them would leave some out"
    )


def _named(join: JoinStreams, input: int) -> str:
    """A stream and its place in FROM, with its alias where the stream repeats."""
    stream, alias = join.streams[input], ""
    if join.streams.count(stream) > 1:
        conditions = (join.compiled, join.residual, *join.filters, *(s.on for s in join.steps))
        nodes = (node for one in conditions for node in walk(one) if isinstance(node, Column))
        alias = next((node.alias for node in nodes if node.side == input), "")
        alias = "" if alias.lower() == stream.lower() else alias
    return f"{stream}{f' AS {alias}' if alias else ''} ({input + 1})"
