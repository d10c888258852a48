"""The error of a query that has failed, from one process to another."""

from __future__ import annotations

import json

from penstock.engines.local.engine import Engine
from penstock.engines.shared.failure import failure_of, load_failure, save_failure
from penstock.errors import ResultDoesNotFit


def test_a_failure_keeps_that_a_result_did_not_fit() -> None:
    with Engine() as engine:
        engine.sql("CREATE STREAM R (x INT)")
        query = engine.install("SELECT x FROM R", "q")
        fits = failure_of(query, ResultDoesNotFit("too much", "Take less."))
        broken = failure_of(query, KeyError("z"))
    again = load_failure(json.loads(json.dumps(save_failure(fits))))
    assert str(again) == str(fits)
    assert str(again) == (
        "query 'q' is stopped: too much; every other query has taken the input\nTake less."
    )
    assert isinstance(again.__cause__, ResultDoesNotFit)
    assert str(again.__cause__) == "too much\nTake less."
    again = load_failure(json.loads(json.dumps(save_failure(broken))))
    assert (str(again), again.__cause__) == (str(broken), None)


def test_a_failure_of_an_older_state_is_read() -> None:
    failure = load_failure(["query 'q' is stopped", "Drop it."])
    assert (failure.what, failure.remedy, failure.__cause__) == (
        "query 'q' is stopped",
        "Drop it.",
        None,
    )
