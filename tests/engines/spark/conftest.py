"""One Spark session for all tests of a run, and an engine for those that need none of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.engines.spark.engine import Engine
from penstock.engines.spark.session import Session, open_session


@pytest.fixture(scope="session")
def session() -> Iterator[Session]:
    opened = open_session(2)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def shared_engine(session: Session) -> Iterator[Engine]:
    """Whoever uses it resets it afterwards."""
    with Engine(compile_predicates=False) as engine:
        yield engine
