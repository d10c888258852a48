"""Penstock: continuous SQL over streams, with the joins that other engines refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

import penstock.sql  # noqa: F401  first, or importing it later would hide the function sql
from penstock.errors import (
    BufferFull,
    ChangeRefused,
    EngineFailure,
    EnvironmentProblem,
    InputError,
    MemoryLimit,
    PenstockError,
    QueryFailed,
    ResultDoesNotFit,
    SqlError,
    StateError,
)

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from penstock.engines.local.engine import Engine
    from penstock.engines.spark.engine import Engine as SparkEngine

__version__ = "0.1.0"
__all__ = [
    "BufferFull",
    "ChangeRefused",
    "EngineFailure",
    "EnvironmentProblem",
    "InputError",
    "MemoryLimit",
    "PenstockError",
    "QueryFailed",
    "ResultDoesNotFit",
    "SqlError",
    "StateError",
    "__version__",
    "connect",
    "restore",
    "sql",
]


@overload
def connect(engine: Literal["local"], **options: Any) -> Engine: ...
@overload
def connect(engine: Literal["spark"] | SparkSession = "spark", **options: Any) -> SparkEngine: ...
@overload
def connect(engine: str, **options: Any) -> Any: ...


def connect(engine: Any = "spark", **options: Any) -> Any:
    """Start an engine: ``"spark"``, the SparkSession to run in, or ``"local"``, in this process.

    ``options`` are those of :class:`penstock.engines.local.engine.Engine` or
    :class:`penstock.engines.spark.engine.Engine`.
    """
    if engine == "local":
        from penstock.engines.local.engine import Engine

        _check_options(Engine, options)
        return Engine(**options)
    if engine != "spark" and not hasattr(engine, "sparkContext"):
        raise InputError(
            f"unknown engine {engine!r}",
            "Write ps.connect('local'), ps.connect('spark'), or pass a SparkSession.",
        )
    from penstock.engines.spark.engine import Engine as SparkEngine

    _check_options(SparkEngine, options)
    return SparkEngine(None if engine == "spark" else engine, **options)


def restore(path: str | Path, **options: Any) -> Engine:
    """Start an engine from a file that ``engine.save`` has written.

    ``options`` are those of :func:`connect` and override what it was saved with.
    """
    from pathlib import Path

    from penstock.engines.local.engine import Engine
    from penstock.engines.local.state import restore as restore_from

    _check_options(Engine, options)
    return restore_from(Path(path), **options)


def _check_options(engine: type[Any], options: dict[str, Any]) -> None:
    """Refuse what is no option of an engine."""
    from inspect import signature

    known = [name for name in signature(engine).parameters if name != "session"]
    for option in options:
        if option not in known:
            raise InputError(
                f"an engine has no option {option!r}", f"The options are: {', '.join(known)}."
            )


def sql(
    text: str,
    *,
    order_by: str | None = None,
    order: str | None = None,
    kernel: str | None = None,
    flow: str | None = None,
    cores: int | None = None,
    branching: int | None = None,
    precision: int | None = None,
    admission: str | None = None,
    **streams: Any,
) -> pa.Table:
    """Run a query over bounded streams, given as tables or paths, and return all of its rows.

    The streams are merged by the column ``order_by``; ties by the stream's place in the query. The
    other options are those of :meth:`penstock.engines.local.engine.Engine.install`. Streams are
    known without regard to case, so one that has the name of an option can be given as ``Flow=``.
    A result that does not fit its type is :class:`penstock.errors.ResultDoesNotFit`.

    >>> import pyarrow as pa
    >>> r = pa.table({"ts": [1, 3], "x": [10, 30]})
    >>> s = pa.table({"ts": [2, 4], "a": [11, 31]})
    >>> sql("SELECT r.x, s.a FROM R [ROWS 9] r JOIN S [ROWS 9] s ON s.a - r.x = 1",
    ...     R=r, S=s, order_by="ts").to_pylist()
    [{'x': 10, 'a': 11}, {'x': 30, 'a': 31}]
    """
    from penstock.program.flow_choice import FlowChoice
    from penstock.run import run_tables

    choice = FlowChoice(flow, cores, branching, precision, admission)
    return run_tables(text, streams, order_by, order, kernel, choice)
