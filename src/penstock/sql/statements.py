"""The statements of the language."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.sql.syntax import QueryClause
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
        What was read.
    text
        The query alone, without what stood before and after it.
    source
        The whole text it stood in. The places in ``ast`` are places in this text.
    """

    ast: QueryClause
    text: str
    source: str = field(repr=False)


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
