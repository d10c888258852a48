"""Command-line options: how cores share a query, which engine runs it, and Spark's settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.errors import InputError
from penstock.program.isa.flow import ADMISSIONS, EXACT_DESIGNS, EXACT_FLOWS, FLOWS, PROBE_ORDERS
from penstock.streams.display import listed

if TYPE_CHECKING:
    from penstock.cli.run.on_spark import SparkOptions
    from penstock.processor.topology.topology import Topology
    from penstock.program.isa.flow import FlowChoice

FLAG = ""
"""The metavar of an option without a value: only the option's name is shown."""


def one_of(names: Iterable[str]) -> Callable[[str], list[str]]:
    """The completions that a shell proposes for the value of an option."""

    def proposed(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return proposed


# No minimum here: our error for a value that is too small says more than Typer's.
FlowName = Annotated[
    str | None,
    typer.Option(
        "--flow",
        metavar="NAME",
        help=f"How cores share the joins: {listed(EXACT_FLOWS, 'or')}; on Spark "
        f"{listed(name for name, flow in FLOWS.items() if not flow.not_on_spark)}.",
        autocompletion=one_of(EXACT_FLOWS),
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
        metavar="|".join(ADMISSIONS),
        help="What happens to input while the output is full: it waits, or it is dropped, counted "
        "and reported.",
        autocompletion=one_of(ADMISSIONS),
    ),
]
Design = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help=f"How a join of three and more streams is run: {listed(EXACT_DESIGNS, 'or')}.",
        autocompletion=one_of(EXACT_DESIGNS),
    ),
]
ProbeOrder = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(PROBE_ORDERS),
        help="How a join of three and more streams orders its probes: by match rates, or by the "
        "places of the streams in FROM.",
        autocompletion=one_of(PROBE_ORDERS),
    ),
]
Stash = Annotated[
    int | None,
    typer.Option(metavar="PAIRS", help="How many pairs the stash of --design stashed holds."),
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
    """Refuse to watch cores outside this process."""
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
    design: str | None,
    probe_order: str | None,
    stash: int | None,
) -> FlowChoice:
    """The flow options; on Spark the number of cores belongs to the engine, not to the query."""
    from penstock.program.choose.flow import check_choice
    from penstock.program.isa.flow import FlowChoice

    choice = FlowChoice(flow, cores, branching, precision, admission, design, probe_order, stash)
    if spark is None:
        check_choice(choice)
        return choice
    from penstock.engines.spark.flow import check_on_spark

    check_on_spark(choice)
    return replace(choice, cores=None, branching=None, admission=None)


TopologyOption = Annotated[
    str | None,
    typer.Option(
        "--topology",
        metavar="FILE|NAME",
        help="The topology that queries stand on: a TOML file, or a preset such as fqp:chain:4.",
    ),
]


def topology_option(given: str | None, choice: FlowChoice) -> Topology | None:
    """The topology that is asked for; its blocks share the work, and no flow options do."""
    if given is None:
        return None
    asked = {
        "--flow": choice.name,
        "--cores": choice.cores,
        "--branching": choice.branching,
        "--admission": choice.admission if choice.admission == "shed" else None,
        "--design": choice.design,
        "--probe-order": choice.probe_order,
        "--stash": choice.stash,
    }
    for option, value in asked.items():
        if value is not None:
            raise InputError(
                f"{option} {value} is about the cores of a query, and on a topology its blocks "
                "do the work",
                f"Leave out {option}, or --topology {given}.",
            )
    from penstock.processor.topology.load import load_topology

    return load_topology(given)


class EngineName(StrEnum):
    """The engines: where the blocks of a query run."""

    spark = "spark"
    local = "local"


EngineOption = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="spark|local",
        help="Spark Structured Streaming, or the engine inside this process.",
        autocompletion=one_of(EngineName),
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
    """The engine of this name."""
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
    """The options for Spark; None for the embedded engine, which refuses them."""
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
    from penstock.cli.run.on_spark import SparkOptions

    plain = SparkOptions()
    return SparkOptions(
        plain.cores if cores is None else cores,
        master,
        rows_per_trigger or plain.rows_per_trigger,
        checkpoint,
    )
