"""The options of the command line that say how cores share a query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.errors import InputError

if TYPE_CHECKING:
    from penstock.program.flow_choice import FlowChoice
    from penstock.run_spark import SparkOptions

FLAG = ""
"""How an option that takes no value is shown: by its name alone, without a type."""

# No smallest values here: what is too small has an error that says more than Typer's.
FlowName = Annotated[
    str | None,
    typer.Option(
        "--flow",
        metavar="NAME",
        help="How cores share the joins: three-step, shared, splitjoin, celljoin, handshake or "
        "low-latency-handshake; on Spark splitjoin.",
    ),
]
Cores = Annotated[
    int | None,
    typer.Option(
        metavar="K",
        help="How many cores share the joins, or divide the batches of an aggregate; on Spark, how "
        "many tasks: 1.",
    ),
]
Branching = Annotated[
    int | None,
    typer.Option(metavar="B", help="How many ways a node of SplitJoin's tree sends tuples on: 8."),
]
Precision = Annotated[
    int | None,
    typer.Option(metavar="N", help="The precision of the order, instead of that of EMIT ORDER: 1."),
]
Admission = Annotated[
    str | None,
    typer.Option(
        metavar="wait|shed",
        help="What happens to input while the output is full: it waits, or it is dropped, counted "
        "and reported.",
    ),
]
Watch = Annotated[
    bool,
    typer.Option(
        "--watch",
        metavar=FLAG,
        help="Draw what every core does while it runs: --engine local.",
    ),
]


def check_watch(spark: SparkOptions | None) -> None:
    """Only cores in this process can be watched."""
    if spark is not None:
        raise InputError(
            "--watch cannot see the cores on Spark: they are in processes of Spark, which tell of "
            "themselves when a micro-batch is done",
            "Watch it with --engine local, or leave out --watch; --summary has the figures of "
            "Spark's cores.",
        )


def flow_choice(
    spark: SparkOptions | None,
    flow: str | None,
    cores: int | None,
    branching: int | None,
    precision: int | None,
    admission: str | None,
) -> FlowChoice:
    """What was asked for of the flow; on Spark the cores are the engine's, not the query's."""
    from penstock.program.flow_choice import FlowChoice, check_choice

    choice = FlowChoice(flow, cores, branching, precision, admission)
    if spark is None:
        check_choice(choice)
        return choice
    from penstock.engines.spark.flow import check_on_spark

    check_on_spark(choice)
    return FlowChoice(flow, precision=precision)
