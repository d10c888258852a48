"""Penstock: continuous SQL over streams, with the joins that other engines refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import penstock.sql  # noqa: F401  first, or importing it later would hide the function sql
from penstock.errors import (
    BufferFull,
    ChangeRefused,
    EngineFailure,
    EnvironmentProblem,
    InputError,
    MemoryLimit,
    PenstockError,
    ProgramError,
    QueryFailed,
    ResultDoesNotFit,
    SqlError,
    StateError,
    TopologyError,
)
from penstock.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from penstock.engines.local.engine import Engine, LocalOptions
    from penstock.engines.spark.engine import Engine as SparkEngine
    from penstock.engines.spark.engine import SparkOptions
    from penstock.processor.topology.topology import Topology
    from penstock.program.isa.block_instructions import Program
    from penstock.program.isa.flow import (
        Admission,
        DesignName,
        FlowName,
        Order,
        ProbeOrderName,
    )
    from penstock.program.isa.kernels import Kernel
    from penstock.streams.convert import PushData

__version__ = VERSION
__all__ = [
    "BufferFull",
    "ChangeRefused",
    "EngineFailure",
    "EnvironmentProblem",
    "InputError",
    "MemoryLimit",
    "PenstockError",
    "Program",
    "ProgramError",
    "QueryFailed",
    "ResultDoesNotFit",
    "SqlError",
    "StateError",
    "Topology",
    "TopologyError",
    "__version__",
    "connect",
    "register_block",
    "restore",
    "sql",
    "topology",
]

_INSTALLED = ("order", "kernel", "flow", "cores", "branching", "precision", "admission", "design")
"""Options of each query, not of the engine; ``cores`` is also an option of the Spark engine."""


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> Any:
    """The classes Program and Topology, which are imported when they are asked for."""
    if name == "Program":
        from penstock.program.isa.block_instructions import Program

        return Program
    if name == "Topology":
        from penstock.processor.topology.topology import Topology

        return Topology
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register_block(name: str, block: type) -> None:
    """Let queries use a block of your own: ``FROM name(stream, argument => value)``.

    ``block`` is a class as docs/own-blocks.md says, which Spark imports by the name of its module.
    """
    from penstock.flows.make import register_block

    register_block(name, block)


def topology(name: str | Path) -> Topology:
    """The topology of a preset's name, or of a TOML file: docs/topologies.md.

    Raises :class:`TopologyError` if its parts do not fit together.

    >>> topology("fqp:partial:2x3")
    <Topology 'fqp:partial:2x3:131072': 6 blocks in 2 branches>
    """
    from penstock.processor.topology.load import load_topology

    return load_topology(name)


@overload
def connect(engine: Literal["local"], **options: Unpack[LocalOptions]) -> Engine: ...
@overload
def connect(
    engine: Literal["spark"] | SparkSession = "spark", **options: Unpack[SparkOptions]
) -> SparkEngine: ...


def connect(engine: Any = "spark", **options: Any) -> Any:
    """Start an engine: ``"spark"``, the SparkSession to run in, or ``"local"``, in this process.

    Parameters
    ----------
    engine : "spark" (the default), "local", or a SparkSession
        Where queries run. All engines give the same rows.

    Options of both:

    batch_rows : int = 65536
        The number of tuples processed at once. The rows do not depend on it.
    buffer_rows : int = 1048576
        The number of rows (and late tuples, and dead letters) a query buffers until it is drained.
        ``push`` waits while it has more.
    push_timeout : float = 30.0
        The seconds ``push`` waits before it raises :class:`BufferFull`.
    compile_predicates : bool = True
        False runs the generated loops of joins as plain Python instead of compiling them: nothing
        to wait for at the start, but every comparison is left to the interpreter.
    windows_required : bool = True
        False allows joins of bounded streams without window clauses.
    order_column : str | None = None
        The time attribute of a stream for which neither the query nor its declaration names one.
    topology : Topology | str | Path | None = None
        The topology that queries stand on, such as ``"fqp:chain:4"``: see docs/topologies.md. None:
        every query has the blocks that it needs.

    Options of ``"local"``:

    window_memory : int | None = None
        The bytes that the windows of one query may take; None: no limit.

    Options of ``"spark"``:

    master : str | None = None
        The Spark master of the session that is started; None: local, with a thread per core.
    checkpoint : str | Path | None = None
        A folder for log, state and results. An engine connected with the folder of an earlier one
        continues where that one stopped, or was killed. None: a temporary folder.
    cores : int = 1
        The number of tasks that share the work.
    rows_per_trigger : int = 1048576
        The most tuples in one micro-batch.
    backlog_rows : int = 8388608
        The most tuples that the log may be ahead of the cores; beyond it ``push`` waits.
    keep_results : bool = False
        True leaves the results in files for ``engine.made``; query handles get none.

    >>> with connect("local", push_timeout=1.0) as engine:
    ...     print(engine)
    <Engine local: open, 0 streams, 0 queries, position 0>
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


def restore(path: str | Path, **options: Unpack[LocalOptions]) -> Engine:
    """Start an engine from a file that ``engine.save`` has written.

    ``options`` are those of ``connect("local")``: batch_rows, buffer_rows, push_timeout,
    window_memory, compile_predicates, windows_required, order_column, topology. Each replaces the
    saved value.
    """
    from penstock.engines.local.engine import Engine
    from penstock.engines.local.state import as_path
    from penstock.engines.local.state import restore as restore_from

    _check_options(Engine, options)
    return restore_from(as_path(path), **options)


def _check_options(engine: type[Any], options: Mapping[str, Any]) -> None:
    """Refuse unknown options of an engine."""
    from inspect import signature

    from penstock.sql.parse.foreign_functions import misspelt

    known = [name for name in signature(engine).parameters if name != "session"]
    for option in options:
        if option not in known:
            near = misspelt(option, known)
            hint = f"Did you mean {near[0]}? " if near else ""
            if option in _INSTALLED:
                hint = f"It is an option of engine.install(sql, {option}=...). "
            raise InputError(
                f"an engine has no option {option!r}", f"{hint}The options are: {', '.join(known)}."
            )


def sql(
    text: str,
    *,
    order_by: str | None = None,
    order: Order | None = None,
    kernel: Kernel | None = None,
    flow: FlowName | None = None,
    cores: int | None = None,
    branching: int | None = None,
    precision: int | None = None,
    admission: Admission | None = None,
    design: DesignName | None = None,
    probe_order: ProbeOrderName | None = None,
    stash: int | None = None,
    **streams: PushData | str | Path,
) -> pa.Table:
    """Run a query over bounded streams, given as tables or paths, and return all of its rows.

    Parameters
    ----------
    text
        Statements separated by ``;``; the last SELECT is the result.
    order_by
        The column by which several streams are merged; each must be sorted by it. Ties are settled
        by the stream's place in the query. None: a single stream, or joins of whole streams.
    order, kernel, flow, cores, branching, precision, admission, design, probe_order, stash
        As those of ``engine.install``.
    streams
        Each stream by its name: data that can be pushed, or the path of a file or folder. Names are
        compared without regard to case, so a stream with the name of an option can be passed as
        ``Flow=``.

    Raises :class:`penstock.errors.ResultDoesNotFit` if a result does not fit its type.

    >>> import pyarrow as pa
    >>> r = pa.table({"ts": [1, 3], "x": [10, 30]})
    >>> s = pa.table({"ts": [2, 4], "a": [11, 31]})
    >>> sql("SELECT r.x, s.a FROM R [ROWS 9] r JOIN S [ROWS 9] s ON s.a - r.x = 1",
    ...     R=r, S=s, order_by="ts").to_pylist()
    [{'x': 10, 'a': 11}, {'x': 30, 'a': 31}]
    """
    from penstock.cli.run.bounded import run_tables
    from penstock.program.isa.flow import FlowChoice

    choice = FlowChoice(flow, cores, branching, precision, admission, design, probe_order, stash)
    return run_tables(text, streams, order_by, order, kernel, choice)
