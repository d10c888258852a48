"""The error of a query that cannot go on, here and on its way between processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.engines.shared.running import Known
from penstock.errors import PenstockError, QueryFailed, ResultDoesNotFit


def failure_of(query: Known, error: Exception) -> QueryFailed:
    """The error of a query that cannot go on; it names what happened inside."""
    if isinstance(error, ResultDoesNotFit):
        failure = QueryFailed(
            f"query {query.name!r} is stopped: {error.what}; every other query has taken the input",
            error.remedy,
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


def save_failure(failure: QueryFailed) -> list[Any]:
    """A failure as JSON can hold it. Of its cause, that a result did not fit."""
    cause = failure.__cause__
    said = [cause.what, cause.remedy] if isinstance(cause, ResultDoesNotFit) else None
    return [failure.what, failure.remedy, said]


def load_failure(saved: Sequence[Any]) -> QueryFailed:
    """The failure that :func:`save_failure` was given."""
    what, remedy, *rest = saved  # nothing of the cause in states that are older
    failure = QueryFailed(what, remedy)
    if rest and rest[0] is not None:
        failure.__cause__ = ResultDoesNotFit(*rest[0])
    return failure
