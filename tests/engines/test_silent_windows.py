"""Windows over derived streams that wait for punctuations are warned of."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import pytest
from tests.engines.spark.in_process import Cluster, connected

from penstock.engines.local.engine import Engine

WINDOW = "[RANGE 10 SLIDE 10 WATTR t]"
START = f"query 'q' has the window {WINDOW} over the derived stream D without SLACK; "
SLACK = "for instance [RANGE 10 SLIDE 10 WATTR t SLACK 0] if its rows come in order of t."
NEVER = f"there are no punctuations of D.t: it waits for the end. Write SLACK, {SLACK}"


def waits(names: str) -> str:
    why = f"it waits for punctuations of {names}, and none has come yet."
    return f"{why} Punctuate {names}, or write SLACK, {SLACK}"


def engine_with(derived: str) -> Engine:
    engine = Engine()
    engine.sql("CREATE STREAM R (id INT, t BIGINT); CREATE STREAM S (id INT, t BIGINT)")
    engine.sql("CREATE STREAM U (id INT, t BIGINT)")
    engine.sql(f"CREATE STREAM D AS {derived}")
    return engine


def said(install: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        install()
    return [str(warning.message) for warning in caught]


THREE = (
    "FROM R [RANGE 5 WATTR t] AS r, S [{0}] AS s, U [{0}] AS u WHERE r.id = s.id AND s.id = u.id"
)
JOINED = "FROM R [RANGE 5 WATTR t] AS r JOIN S [{}] AS s ON r.id = s.id"


@pytest.mark.parametrize(
    ("derived", "why"),
    [
        ("SELECT t FROM R WHERE id > 0", waits("R.t")),
        ("SELECT id AS t FROM R", waits("R.id")),
        ("SELECT t FROM R UNION ALL SELECT t FROM S", waits("R.t and S.t")),
        ("SELECT t + 1 AS t FROM R", NEVER),
        ("SELECT t FROM R UNION ALL SELECT t + 1 FROM S", NEVER),
        (f"SELECT r.t AS t {JOINED.format('RANGE 5 WATTR t')}", None),
        (f"SELECT r.id AS t {JOINED.format('RANGE 5 WATTR t')}", NEVER),
        (f"SELECT r.t AS t {JOINED.format('ROWS 5')}", waits("S.t")),
        (f"SELECT s.t AS t {JOINED.format('ROWS 5')}", NEVER),
        (f"SELECT r.t AS t {THREE.format('RANGE 5 WATTR t')}", None),
        (f"SELECT r.t AS t {THREE.format('ROWS 5')}", waits("S.t and U.t")),
        (
            "SELECT t FROM R UNION ALL SELECT t FROM S UNION ALL SELECT t FROM U",
            waits("R.t, S.t and U.t"),
        ),
        ("SELECT window_end AS t, COUNT(*) AS n FROM R [RANGE 5 SLIDE 5 WATTR t]", None),
        ("SELECT MAX(t) AS t FROM R [RANGE 5 SLIDE 5 WATTR t]", NEVER),
        ("SELECT window_end AS t, COUNT(*) AS n FROM R [ROWS 5 SLIDE 5]", NEVER),
    ],
)
def test_a_window_that_waits_is_warned_of(derived: str, why: str | None) -> None:
    engine = engine_with(derived)
    text = f"SELECT COUNT(*) AS n FROM D {WINDOW}"
    expected = [] if why is None else [START + why]
    assert said(lambda: engine.install(text, "q")) == expected
    assert said(lambda: engine.install(text.replace("]", " SLACK 0]"), "slack")) == []


def test_what_is_punctuated_is_not_waited_for() -> None:
    engine = engine_with("SELECT t FROM R")
    engine.sql("CREATE STREAM E AS SELECT t FROM D")
    engine.punctuate("R", 0, "t")
    join = "SELECT d.t FROM D [RANGE 5 WATTR t] AS d JOIN E [RANGE 5 WATTR t] AS e ON TRUE"
    assert said(lambda: engine.install(join, "q")) == []


def test_both_sides_of_a_join_are_warned_of() -> None:
    engine = engine_with("SELECT t FROM R")
    engine.sql("CREATE STREAM E AS SELECT t * 2 AS t FROM D")
    join = "SELECT d.t FROM D [RANGE 5 WATTR t] AS d JOIN E [RANGE 6 WATTR t] AS e ON TRUE"
    found = said(lambda: engine.install(join, "q"))
    assert [text.partition("; ")[0] for text in found] == [
        "query 'q' has the window [RANGE 5 WATTR t] over the derived stream D without SLACK",
        "query 'q' has the window [RANGE 6 WATTR t] over the derived stream E without SLACK",
    ]


@pytest.fixture
def on_spark() -> Iterator[Engine]:
    with connected(Cluster(), cores=2) as engine:
        yield engine


def test_the_driver_of_spark_warns_too(on_spark: Engine) -> None:
    on_spark.sql("CREATE STREAM R (id INT, t BIGINT)")
    on_spark.sql("CREATE STREAM D AS SELECT t FROM R")
    install = f"SELECT COUNT(*) AS n FROM D {WINDOW}"
    assert said(lambda: on_spark.install(install, "q")) == [
        START + waits("R.t"),
        "query 'q' runs on one of 2 cores: it reads a derived stream, whose rows are in one order",
    ]
