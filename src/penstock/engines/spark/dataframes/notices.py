"""Warnings in the driver of late tuples and dead letters of queries over DataFrames.

The cores count late tuples and dead letters by stream, and Spark brings the counts of every trigger
to the driver with the query's progress, for any sink. A query without ``letters=True`` has no other
place for them. So there is a warning at the first ones of a stream, and one with the total when the
query ends, if there were more.
"""

from __future__ import annotations

import atexit
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

SHOWN = "letters"
"""The metric that is true if letters are rows of the result: no warning is needed."""

_REMEDY = {
    "late": "Allow for more disorder (SLACK, or withWatermark), or get them as rows: "
    "pss.sql(..., letters=True).",
    "dead": "Get them as rows, each with its reason: pss.sql(..., letters=True).",
}
_COUNTED = " The progress of the query counts them: observedMetrics[{!r}][{!r}]."
_DRAIN_MS = 5_000


class Place(NamedTuple):
    """Where a program calls ``pss.sql``."""

    file: str
    line: int


def metric_of(kind: str, stream: str) -> str:
    """The name of the count of a stream's letters; ``kind`` is late or dead."""
    return f"{kind}_{stream}"


@dataclass
class _Counts:
    """Letters by (name of the metrics, metric): the number warned of, and the number so far."""

    warned: dict[tuple[str, str], int] = field(default_factory=dict)
    counted: dict[tuple[str, str], int] = field(default_factory=dict)


class Notices:
    """The warnings about letters: one for each query and stream.

    ``counted`` says where else a count is found: a text with the names of metrics and metric.
    """

    def __init__(self, counted: str = "") -> None:
        self._counted = counted
        self._queries: dict[str, _Counts] = {}

    def take(self, query: str, metrics: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
        """Add counts of a query; yields new warnings."""
        seen = self._queries.setdefault(query, _Counts())
        for name, counts in metrics.items():
            for metric in counts if counts.get(SHOWN) is False else ():
                kind, _, stream = metric.partition("_")
                if kind not in _REMEDY or not stream or not counts[metric]:
                    continue
                place = (name, metric)
                seen.counted[place] = seen.counted.get(place, 0) + counts[metric]
                if place not in seen.warned:
                    seen.warned[place] = counts[metric]
                    yield (
                        f"{_letters(counts[metric], metric)} {query}, whose rows lack what "
                        f"{'they' if counts[metric] > 1 else 'it'} would have added. "
                        f"{_REMEDY[kind]}{self._counted.format(name, metric)}"
                    )

    def end(self, query: str) -> Iterator[str]:
        """Remove a query; yields its total number of letters, if that was not in a warning."""
        seen = self._queries.pop(query, _Counts())
        for place, count in seen.counted.items():
            if count > seen.warned[place]:
                yield f"{_letters(count, place[1])} {query} in all, which has ended."


def _letters(count: int, metric: str) -> str:
    kind, _, stream = metric.partition("_")
    tuples = f"{count:,} {'tuple' if count == 1 else 'tuples'} of stream {stream}"
    if kind == "late":
        return f"{tuples} came too late for"
    return f"{tuples} {'is a dead letter' if count == 1 else 'are dead letters'} of"


class LetterWarnings(StreamingQueryListener):
    """Warns of late tuples and dead letters of the queries of ``pss.sql`` in a session.

    ``place`` is the line of the program that a warning names.
    """

    def __init__(self, place: Place) -> None:
        self._notices = Notices(_COUNTED)
        self._names: dict[str, str] = {}
        self._place = place

    def onQueryStarted(self, event: Any) -> None:
        """Nothing has been left out yet."""

    def onQueryProgress(self, event: Any) -> None:
        """Warn of the first letters of each stream."""
        progress = event.progress
        run = str(progress.runId)
        query = self._names.setdefault(run, f"query {progress.name or run}")
        metrics = {name: row.asDict() for name, row in progress.observedMetrics.items()}
        _warn(self._notices.take(query, metrics), self._place)

    def onQueryTerminated(self, event: Any) -> None:
        """Warn of the total number of letters."""
        run = str(event.runId)
        _warn(self._notices.end(self._names.pop(run, run)), self._place)


class _ActionWarnings:
    """As :class:`LetterWarnings`, of results of static DataFrames; an interface of the JVM."""

    def __init__(self, place: Place) -> None:
        self._notices = Notices()
        self._place = place

    def onSuccess(self, function: str, execution: Any, nanoseconds: int) -> None:
        pairs, metrics = execution.observedMetrics().iterator(), {}
        while pairs.hasNext():
            pair = pairs.next()
            row = pair._2()
            names = list(row.schema().fieldNames())
            metrics[pair._1()] = {name: row.get(i) for i, name in enumerate(names)}
        _warn(self._notices.take("the static result", metrics), self._place)

    def onFailure(self, function: str, execution: Any, error: Any) -> None:
        pass

    class Java:
        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)


def _warn(texts: Iterable[str], place: Place) -> None:
    for text in texts:
        warnings.warn_explicit(text, UserWarning, *place)


def warn_of_letters(spark: SparkSession, place: Place, bounded: bool) -> None:
    """Warn of the letters of all that runs in this session.

    Not through Spark Connect: a client with a listener does not end by itself, and removing the
    listener waits for ever for an event that comes meanwhile.
    """
    if not hasattr(spark, "_jsparkSession"):
        return
    if bounded:
        from pyspark.java_gateway import ensure_callback_server_started

        ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
        spark._jsparkSession.listenerManager().register(_ActionWarnings(place))
    else:
        spark.streams.addListener(LetterWarnings(place))
    # Spark tells of progress in a thread of its own; a program may end before it has.
    atexit.unregister(_drain)
    atexit.register(_drain)


def _drain() -> None:
    """Wait until Spark has delivered its progress events, if it still runs."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None and context._jsc is not None:
        try:
            context._jsc.sc().listenerBus().waitUntilEmpty(_DRAIN_MS)
        except Exception:  # the JVM has ended, or does not answer
            return
