"""The order of a cascade: which two inputs join first, and which joins next."""

from __future__ import annotations

from penstock.program.choose.probe_order import EQUALITY, NOTHING, TERM, JoinTerms
from penstock.streams.windows import Rows

_LINKS = (EQUALITY, TERM, NOTHING)


def cascade_order(terms: JoinTerms) -> tuple[int, ...]:
    """The inputs of a join in the order in which a cascade joins them.

    The next one is one that an equality links with those before it, else one that any term links;
    among those the one with the smallest count window, else the first in FROM. The first two are
    the pair that is best by the same rule.
    """
    windows = terms.join.windows
    sizes = [window.size if isinstance(window, Rows) else float("inf") for window in windows]

    def cost(input: int, bound: tuple[int, ...]) -> tuple[int, float, int]:
        return _LINKS.index(terms.link(input, bound)), sizes[input], input

    rest = list(range(terms.join.core))
    first = min(
        rest, key=lambda one: (min(cost(i, (one,)) for i in rest if i != one)[0], sizes[one], one)
    )
    order = [first]
    rest.remove(first)
    while rest:
        bound = tuple(order)
        best = min(rest, key=lambda input: cost(input, bound))
        order.append(best)
        rest.remove(best)
    return tuple(order)
