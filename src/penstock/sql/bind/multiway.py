"""Checks of joins of three and more streams: their number, their kinds, and what links them."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import SqlError
from penstock.sql.expressions import TRUE, Expression, conjuncts, sides
from penstock.sql.parse.foreign_clauses import LONGEST
from penstock.sql.parse.syntax import JoinClause, SelectClause, StreamReference
from penstock.sql.plan import MOST_INPUTS, Aggregate, Join, Scan, Select
from penstock.streams.windows import Range, Unbounded


def check_number(clauses: Sequence[JoinClause], source: str) -> None:
    """Refuse a join of too many streams."""
    if len(clauses) >= MOST_INPUTS:
        raise SqlError.at(
            source,
            *clauses[MOST_INPUTS - 1].at,
            f"a join of more than {MOST_INPUTS} streams is not supported",
            "Name a part of the join, CREATE STREAM j AS SELECT ... JOIN ...; and join j.",
        )


def check_kinds(
    clauses: Sequence[JoinClause], scans: Sequence[Scan], left: StreamReference, source: str
) -> None:
    """Refuse what cannot stand to the right of an outer, semi or anti join.

    A padded, semi or anti combination may be decided after tuples that it meets have expired. Times
    say which tuples these are; of a count window nothing does.
    """
    kinds = ["inner" if clause.kind == "cross" else clause.kind for clause in clauses]
    special = next((i for i, kind in enumerate(kinds) if kind != "inner"), len(kinds))
    timed = all(isinstance(scan.window, Range) for scan in scans)
    whole = all(isinstance(scan.window, Unbounded) for scan in scans)
    if timed or whole or special + 1 >= len(clauses):
        return
    clause, kind = clauses[special + 1], kinds[special + 1]
    written = "JOIN" if kind == "inner" else f"{kind.upper()} JOIN"
    before = f"{kinds[special].upper()} JOIN"
    text = source[left.at[0] : clause.at[0]].strip().rstrip(",").rstrip()
    if len(text) > LONGEST or "\n" in text:
        text = f"... {before} ..."
    raise SqlError.at(
        source,
        *clause.at,
        f"{written} to the right of {before} needs time windows on all streams of the join",
        f"Name what it joins, CREATE STREAM j AS SELECT ... FROM {text}; and join it, "
        f"FROM j [ROWS 1000] {written} ..., with the windows you need (none for streams "
        "that end). A count window over j counts the rows of j.",
    )


def check_linked(select: Select, clause: SelectClause, source: str) -> None:
    """Refuse a join of three and more streams that no condition links, unless all are windowed."""
    above = select.source
    join = above.source if isinstance(above, Aggregate) else above
    where = above.where if isinstance(above, Aggregate) else select.where
    if not isinstance(join, Join) or len(join.inputs) == 2:
        return
    whole = [
        f"{scan.stream.name} [ROWS 1000]"
        for scan in join.inputs
        if isinstance(scan.window, Unbounded)
    ]
    apart = unlinked(join, where)
    if not whole or not apart:
        return
    references = {reference.alias.text: reference for reference in clause.references}
    first, name = join.inputs[0].alias, apart[0]
    places = "in ON" if join.steps else "in ON or in WHERE"
    # To the right of a join that is not inner there are no count windows.
    bounded = "" if len(join.steps) > 1 else f"; or bound the windows: {_listed(whole, 'and')}"
    raise SqlError.at(
        source,
        *references[name].at,
        f"no condition links {_listed(apart, 'or')} with {first}, and not every window is bounded",
        f"Write a condition on {name} and {first}, or on {name} and a stream that is linked with "
        f"{first}, {places}{bounded}.",
    )


def unlinked(join: Join, where: Expression = TRUE) -> tuple[str, ...]:
    """The inputs that no chain of conditions links with the first one, by alias.

    A condition links all inputs that it reads. Those of WHERE count as those of ON do, if all joins
    are inner.
    """
    linked = {0}
    # WHERE stands after the steps of a tree, and restricts nothing before them.
    conditions = join.conditions if join.steps else (join.on, where)
    edges = [sides(term) for condition in conditions for term in conjuncts(condition)]
    while more := [edge for edge in edges if edge & linked and not edge <= linked]:
        linked.update(*more)
    return tuple(scan.alias for side, scan in enumerate(join.inputs) if side not in linked)


def _listed(names: Sequence[str], word: str) -> str:
    return f" {word} ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]
