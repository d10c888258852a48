"""The options of the command line that choose an engine, and what may be said of it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.errors import InputError

if TYPE_CHECKING:
    from penstock.run_spark import SparkOptions


class EngineName(StrEnum):
    """Where the blocks of a query live."""

    spark = "spark"
    local = "local"


EngineOption = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="spark|local",
        help="Spark Structured Streaming, or the engine inside this process.",
    ),
]
Master = Annotated[
    str | None, typer.Option(metavar="URL", help="The Spark cluster; without it, this machine.")
]
RowsPerTrigger = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Tuples of a micro-batch at most: 1,048,576."),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Keep log, state and results here: the same command, run again after a kill, goes on "
        "where it was, and its output is then complete, with each row once.",
    ),
]


def check_engine(name: str) -> EngineName:
    """The engine of that name."""
    if name not in list(EngineName):
        raise InputError(f"unknown engine {name!r}", "Write --engine spark or --engine local.")
    return EngineName(name)


def spark_options(
    engine: str,
    cores: int | None = None,
    master: str | None = None,
    rows_per_trigger: int | None = None,
    checkpoint: Path | None = None,
) -> SparkOptions | None:
    """What was said of Spark; None for the embedded engine, of which only cores can be said."""
    given = {
        "--master": master,
        "--rows-per-trigger": rows_per_trigger,
        "--checkpoint": checkpoint,
    }
    if check_engine(engine) is EngineName.local:
        for option, value in given.items():
            if value is not None:
                raise InputError(
                    f"{option} is an option of --engine spark",
                    f"Leave out {option} or --engine local.",
                )
        return None
    from penstock.run_spark import SparkOptions

    plain = SparkOptions()
    return SparkOptions(
        plain.cores if cores is None else cores,
        master,
        rows_per_trigger or plain.rows_per_trigger,
        checkpoint,
    )
