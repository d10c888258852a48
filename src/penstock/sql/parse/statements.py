"""The statements of Penstock's SQL."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.sql.parse.syntax import QueryClause
from penstock.streams.schema import Stream


@dataclass(frozen=True)
class CreateStream:
    """``CREATE STREAM s (col type, …) [TIMESTAMP BY a]``."""

    stream: Stream
    text: str = field(compare=False, default="")


@dataclass(frozen=True)
class QueryText:
    """A SELECT or UNION ALL.

    Parameters
    ----------
    ast
        Its syntax tree.
    text
        The text of the query alone.
    source
        The whole text that contains it, to which the places in ``ast`` refer.
    start
        Where ``text`` starts in ``source``.
    """

    ast: QueryClause
    text: str
    source: str = field(repr=False)
    start: int = field(repr=False)


@dataclass(frozen=True)
class DeriveStream:
    """``CREATE STREAM name AS SELECT …``."""

    name: str
    query: QueryText


@dataclass(frozen=True)
class ShowStreams:
    """``SHOW STREAMS``."""


@dataclass(frozen=True)
class ShowQueries:
    """``SHOW QUERIES``."""


@dataclass(frozen=True)
class Describe:
    """``DESCRIBE name``, of a stream or a query."""

    name: str


@dataclass(frozen=True)
class Explain:
    """``EXPLAIN SELECT …``."""

    query: QueryText


Statement = CreateStream | DeriveStream | QueryText | ShowStreams | ShowQueries | Describe | Explain
