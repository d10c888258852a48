"""The failure of a query: the error that stops it, and its form as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.engines.shared.running_query import RegisteredQuery
from penstock.errors import OwnBlockFailed, PenstockError, QueryFailed, ResultDoesNotFit


def failure_of(query: RegisteredQuery, error: Exception) -> QueryFailed:
    """The failure of a query by an error inside it."""
    if isinstance(error, ResultDoesNotFit):
        failure = QueryFailed(
            f"query {query.name!r} is stopped: {error.what}; every other query has taken the input",
            error.remedy,
        )
    elif isinstance(error, OwnBlockFailed):
        failure = QueryFailed(
            f"query {query.name!r} is stopped: {error.what}; every other query has taken the input",
            f"{error.remedy} Then drop the query, and install it again.",
        )
    else:
        what = error.what if isinstance(error, PenstockError) else error
        failure = QueryFailed(
            f"query {query.name!r} has failed and is stopped ({type(error).__name__}: {what}); "
            "every other query has taken the input",
            "Drop it, and install it again once its cause is mended; this is a defect of Penstock.",
        )
    failure.__cause__ = error
    return failure


def interrupted_failure(query: RegisteredQuery, error: BaseException | None) -> QueryFailed:
    """The failure of a query that was interrupted in the middle of a step."""
    by = "" if error is None else f" by {type(error).__name__}"
    failure = QueryFailed(
        f"query {query.name!r} was broken off{by} in the middle of its work and is stopped: what "
        "its windows hold is not whole",
        "Drop it and install it again, or restore an engine that was saved before.",
    )
    failure.__cause__ = error
    return failure


def save_failure(failure: QueryFailed) -> list[Any]:
    """A failure as JSON. Of causes, only ResultDoesNotFit is saved."""
    cause = failure.__cause__
    saved = [cause.what, cause.remedy] if isinstance(cause, ResultDoesNotFit) else None
    return [failure.what, failure.remedy, saved]


def load_failure(saved: Sequence[Any]) -> QueryFailed:
    """Restore a failure from :func:`save_failure`."""
    what, remedy, *rest = saved  # nothing of the cause in states that are older
    failure = QueryFailed(what, remedy)
    if rest and rest[0] is not None:
        failure.__cause__ = ResultDoesNotFit(*rest[0])
    return failure
