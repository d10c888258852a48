"""The limit of memory that the windows of one query may take."""

from __future__ import annotations

from penstock.engines.shared.pieces import Piece
from penstock.engines.shared.pipeline import Pipeline
from penstock.engines.shared.query import Query
from penstock.engines.shared.registry import Registry
from penstock.errors import MemoryLimit
from penstock.streams.events import Merged, Tuples


def check_memory(registry: Registry[Query[Pipeline]], piece: Piece, taken: int, limit: int) -> None:
    """Refuse a piece of the input that would make the windows of some query pass the limit.

    What aggregates take is not known before: they are refused more once they have passed it.
    """
    sizes = _sizes(piece)
    for query in registry.queries.values():
        pipeline = query.pipeline
        if not pipeline.holds_tuples and not pipeline.aggregates:
            continue
        arriving = sum(sizes.get(name, 0) for name in registry.sources(query))
        held = pipeline.nbytes
        if not arriving or (held + arriving if pipeline.holds_tuples else held) <= limit:
            continue
        if not pipeline.holds_tuples:
            raise MemoryLimit(
                f"the panes and groups of query {query.name!r} hold {held} bytes, more than the "
                f"limit of {limit}; {taken} tuples of this push were taken",
                "Make its windows smaller with change(), or connect with a larger window_memory; "
                "then push the rest.",
                taken,
            )
        raise MemoryLimit(
            f"the windows of query {query.name!r} hold {held} bytes; with the {arriving} bytes "
            f"that arrive they would pass the limit of {limit}; {taken} tuples of this push were "
            "taken",
            "Make its windows smaller with change(), or connect with a larger window_memory; then "
            "push the rest.",
            taken,
        )


def _sizes(piece: Piece) -> dict[str, int]:
    """How many bytes of each stream arrive."""
    sizes: dict[str, int] = {}
    for event in piece.events:
        if isinstance(event, Tuples):
            name = event.stream.lower()
            sizes[name] = sizes.get(name, 0) + event.batch.nbytes
        elif isinstance(event, Merged):
            for stream, batch in zip(event.streams, event.batches, strict=True):
                sizes[stream.lower()] = sizes.get(stream.lower(), 0) + batch.nbytes
    return sizes
