"""One Spark session for all tests of a run, and an engine for those that need none of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.engines.spark.engine import Engine
from penstock.engines.spark.session import Session, open_session


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all tests that use the session in one process: there is one JVM."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and "session" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def session() -> Iterator[Session]:
    opened = open_session(2)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def shared_engine(session: Session) -> Iterator[Engine]:
    """A test that uses it resets it afterwards."""
    with Engine(compile_predicates=False) as engine:
        yield engine
