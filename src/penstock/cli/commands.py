"""The command line: every command of ``penstock``.

Modules that take long to import are imported by the command that needs them.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from penstock import __version__
from penstock.cli import exit_signals
from penstock.cli.options import (
    FLAG,
    Admission,
    Branching,
    Checkpoint,
    Cores,
    Design,
    EngineName,
    EngineOption,
    FlowName,
    Master,
    Precision,
    ProbeOrder,
    RowsPerTrigger,
    Stash,
    TopologyOption,
    Watch,
    check_engine,
    check_watch,
    flow_choice,
    one_of,
    spark_options,
    topology_option,
)
from penstock.cli.output import print_summary, print_table, with_progress, write
from penstock.errors import InputError, PenstockError, TopologyError
from penstock.program.isa.kernels import AGGREGATE_KERNELS, JOIN_KERNELS
from penstock.streams.display import counted, listed

if TYPE_CHECKING:
    from penstock.cli.run.on_spark import SparkOptions
    from penstock.engines.shared.checksums import Verification
    from penstock.processor.topology.topology import Topology


MOST_PROBLEMS = 20
"""Problems of a topology that are shown at once."""


class _Commands(TyperGroup):
    """A group of commands that reports failures of standard output, which Typer does not."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # here, where a failure can still be reported
            return result
        except BrokenPipeError:  # the reader has closed the pipe
            _forget_output()
            raise typer.Exit() from None

    def get_help_option(self, ctx: Any) -> Any:
        return _as_flag(super().get_help_option(ctx))

    def get_params(self, ctx: Any) -> Any:
        found = super().get_params(ctx)
        for option in found:
            if option.name in ("install_completion", "show_completion"):
                _as_flag(option)
        return found


class _Command(TyperCommand):
    """A command whose ``--help`` is shown as a flag, without a type."""

    def get_help_option(self, ctx: Any) -> Any:
        return _as_flag(super().get_help_option(ctx))


def _as_flag(option: Any) -> Any:
    if option is not None:
        option.metavar = FLAG
    return option


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Continuous SQL over streams, with the joins that other engines refuse.",
)


checkpoints = typer.Typer(
    cls=_Commands, no_args_is_help=True, help="Look at a checkpoint, or at a saved engine."
)
app.add_typer(checkpoints, name="checkpoint")
topologies = typer.Typer(
    cls=_Commands, no_args_is_help=True, help="Draw a topology, or check the file of one."
)
app.add_typer(topologies, name="topology")


class Order(StrEnum):
    """The order of the output rows."""

    none = "none"
    outer = "outer"
    inner = "inner"


class WordForm(StrEnum):
    """How words are written in a file."""

    hex = "hex"
    bytes = "bytes"


class ExplanationForm(StrEnum):
    """How a query is explained."""

    text = "text"
    json = "json"


class AssignmentForm(StrEnum):
    """How an assignment is shown."""

    text = "text"
    json = "json"
    hex = "hex"


TopologyName = Annotated[
    str,
    typer.Argument(
        metavar="FILE|NAME", help="A TOML file, or a preset: fqp:chain:9, fqp:partial:2x3:512."
    ),
]
QueryFile = Annotated[
    Path, typer.Argument(metavar="QUERY.sql", help="Statements; the last SELECT is the result.")
]
Streams = Annotated[
    list[str],
    typer.Option(
        "--stream",
        metavar="NAME=PATH",
        help="A stream and its file: .parquet, .csv, .jsonl, or a directory of them.",
    ),
]
OrderBy = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="The column that the streams are merged by."),
]
Kernel = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help=f"Force the kernel: {listed(JOIN_KERNELS, 'or')}; of aggregates "
        f"{listed(AGGREGATE_KERNELS, 'or')}.",
        autocompletion=one_of((*JOIN_KERNELS, *AGGREGATE_KERNELS)),
    ),
]
WordFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write them to a file instead of standard output."),
]
WordFormat = Annotated[
    WordForm, typer.Option("--format", help="Words as hexadecimal digits, a chunk a line, or raw.")
]
Bits = Annotated[
    list[str],
    typer.Option(
        metavar="FIELD=N",
        help="The width of a field of the topology's words, such as b-id=8; the others have the "
        "usual ones.",
    ),
]
WordsOf = Annotated[
    str | None,
    typer.Option(
        "--topology",
        metavar="FILE|NAME",
        help="The topology whose words they are, instead of --bits.",
    ),
]
RowOrder = Annotated[
    Order | None, typer.Option("--order", help="The order of the rows, instead of EMIT ORDER.")
]


def main(arguments: list[str] | None = None) -> None:
    """Run the ``penstock`` command. Exits with 0, with 1 for a failed check, with 2 for bad input.

    A signal ends it with 128 + its number: see :mod:`penstock.cli.exit_signals`.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # an unencodable character is escaped
            stream.reconfigure(errors="backslashreplace")
    warnings.formatwarning = lambda message, *_, **__: f"penstock: warning: {message}\n"
    try:
        app(arguments, prog_name="penstock")
    except PenstockError as error:
        _show_error(str(error))
        sys.exit(2)
    except OSError as error:
        # Errors of files are InputErrors as a rule. Standard output has no name.
        what = f"{error.filename} cannot be used" if error.filename else "output cannot be written"
        _show_error(f"{what}: {error.strerror}")
        sys.exit(2)
    except KeyboardInterrupt:  # where end_on_signals was not called
        _show_error("interrupted")
        sys.exit(130)


def _show_error(text: str) -> None:
    try:
        sys.stdout.flush()
    except OSError:
        _forget_output()
    print(f"penstock: {text}", file=sys.stderr)


def _forget_output() -> None:
    """Redirect standard output to nowhere, or Python would complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"penstock {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            metavar=FLAG,
            callback=_show_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    del version


@app.command(cls=_Command)
def run(
    query: QueryFile,
    stream: Streams = [],  # noqa: B006  (typer only reads the default)
    order_by: OrderBy = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the rows to .parquet, .csv, .jsonl. The file appears when it is complete.",
        ),
    ] = None,
    order: RowOrder = None,
    precision: Precision = None,
    kernel: Kernel = None,
    flow: FlowName = None,
    cores: Cores = None,
    branching: Branching = None,
    admission: Admission = None,
    design: Design = None,
    probe_order: ProbeOrder = None,
    stash: Stash = None,
    topology: TopologyOption = None,
    summary: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Write the counts and the rate.")
    ] = None,
    letters: Annotated[
        Path | None,
        typer.Option(metavar="FILE.jsonl", help="Write every late tuple and dead letter."),
    ] = None,
    watch: Watch = False,
    engine: EngineOption = "spark",
    master: Master = None,
    rows_per_trigger: RowsPerTrigger = None,
    checkpoint: Checkpoint = None,
) -> None:
    """Replay files as streams and write the rows of a query."""
    spark = spark_options(engine, cores, master, rows_per_trigger, checkpoint)
    choice = flow_choice(
        spark, flow, cores, branching, precision, admission, design, probe_order, stash
    )
    on = topology_option(topology, choice)
    if watch:
        check_watch(spark)
    from penstock.cli.run.bounded import execute, prepare
    from penstock.connectors.sinks import check_outputs

    _advise(checkpoint)
    streams = _parse_streams(stream)
    outputs = {"--out": out, "--summary": summary, "--letters": letters}
    check_outputs({option: path for option, path in outputs.items() if path}, query, streams)
    rows = order.value if order else None
    text = _read(query)
    ready = prepare(
        text, streams, order_by, rows, kernel=kernel, spark=spark, flow=choice, topology=on
    )
    _warn_of_unread(streams, [source.stream.name for source in ready.sources])
    result, table = with_progress(
        ready, lambda progress: execute(ready, out, progress, letters), watch
    )
    if table is not None:
        print_table(table)
    print_summary(result, letters)
    if summary is not None:
        write(summary, json.dumps(result.as_json(), indent=2) + "\n")


@app.command(cls=_Command)
def replay(
    script: Annotated[Path, typer.Argument(metavar="FILE.flow", help="A script of events.")],
    engine: EngineOption = "spark",
    batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Hand N events at a time to the engine: 1, and on Spark as many as there are.",
        ),
    ] = None,
    order: RowOrder = None,
    precision: Precision = None,
    kernel: Kernel = None,
    flow: FlowName = None,
    cores: Cores = None,
    branching: Branching = None,
    admission: Admission = None,
    design: Design = None,
    probe_order: ProbeOrder = None,
    stash: Stash = None,
    topology: TopologyOption = None,
    master: Master = None,
    rows_per_trigger: RowsPerTrigger = None,
    checkpoint: Checkpoint = None,
) -> None:
    """Run a script of events and compare what comes with what it expects."""
    spark = spark_options(engine, cores, master, rows_per_trigger, checkpoint)
    choice = flow_choice(
        spark, flow, cores, branching, precision, admission, design, probe_order, stash
    )
    on = topology_option(topology, choice)
    from penstock.testing.replay import Replay
    from penstock.testing.script import parse_script

    _advise(checkpoint)
    text = _read(script)
    steps = parse_script(text)
    failures: list[str] = []

    def fail(text: str) -> None:
        failures.append(text)
        sys.stdout.flush()
        print(f"{script}, {text}", file=sys.stderr)

    rows = order.value if order else None
    command = {"script": text, "order": rows, "kernel": kernel, "precision": precision}
    with _target(spark, command, on) as target:
        size = batch or (1 if spark is None else len(steps) + 1)
        Replay(target, size, rows, kernel, print, fail, choice).run(steps)
    if failures:
        raise typer.Exit(1)


def _target(spark: SparkOptions | None, command: dict[str, Any], topology: Topology | None) -> Any:
    if spark is None:
        from penstock.testing.replay import EngineTarget

        return EngineTarget("local", topology=topology)
    from penstock.cli.replay_on_spark import SparkTarget

    return SparkTarget(spark, command, topology)


@app.command(cls=_Command)
def explain(
    query: QueryFile,
    stream: Streams = [],  # noqa: B006  (as above)
    order_by: OrderBy = None,
    order: RowOrder = None,
    precision: Precision = None,
    kernel: Kernel = None,
    flow: FlowName = None,
    cores: Cores = None,
    branching: Branching = None,
    admission: Admission = None,
    design: Design = None,
    probe_order: ProbeOrder = None,
    stash: Stash = None,
    topology: TopologyOption = None,
    engine: EngineOption = "spark",
    form: Annotated[
        ExplanationForm,
        typer.Option("--format", help="A text, or a JSON object with plan, program and reasons."),
    ] = ExplanationForm.text,
) -> None:
    """Show the plan, the program, the kernel and the flow of a query, and why."""
    spark = spark_options(engine, cores)
    choice = flow_choice(
        spark, flow, cores, branching, precision, admission, design, probe_order, stash
    )
    on = topology_option(topology, choice)
    from penstock.cli.run.inputs import streams_read
    from penstock.cli.run.setup import install

    streams = _parse_streams(stream)
    rows = order.value if order else None
    ready = install(
        _read(query),
        streams,
        order_by,
        rows,
        kernel=kernel,
        explained=True,
        flow=choice,
        on_spark=spark is not None,
        topology=on,
    )
    _warn_of_unread(streams, streams_read(ready.engine, ready.query))
    with ready.engine:
        said = ready.query.explained()
        if spark is not None:
            from penstock.engines.spark.resident.distribution import explain_on_cores

            program, placed = ready.engine.registry.as_placed(said.program)
            if on is None:
                program = program.placed(choice)
            said = explain_on_cores(said.plan, program, spark.cores, placed, ready.engine.topology)
        print(said.text if form is ExplanationForm.text else said.to_json())


@app.command(cls=_Command)
def demo(engine: EngineOption = "spark") -> None:
    """A join that Spark refuses, on Spark: changed while it runs, checked by another engine."""
    from penstock.demo.screen import Screen

    if check_engine(engine) is EngineName.local:
        from penstock.demo.local import run_demo
    else:
        from penstock.demo.spark import run_demo
    if not run_demo(Screen(sys.stdout)):
        raise typer.Exit(1)


@app.command(cls=_Command)
def assign(
    query: Annotated[
        list[Path],
        typer.Argument(
            metavar="QUERY.sql...", help="Statements; every SELECT is a query of its own."
        ),
    ],
    topology: Annotated[
        str,
        typer.Option(
            metavar="FILE|NAME", help="A TOML file, or a preset: fqp:chain:9, fqp:partial:2x3:512."
        ),
    ],
    stream: Streams = [],  # noqa: B006  (as above)
    form: Annotated[
        AssignmentForm,
        typer.Option("--format", help="A table and the text of the words, JSON, or the words."),
    ] = AssignmentForm.text,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write it to a file instead of standard output."),
    ] = None,
) -> None:
    """Place queries on a topology: which blocks serve them, and the instructions for these."""
    from penstock.cli.assign import assigned
    from penstock.processor.topology.load import load_topology

    texts: dict[Path, str] = {}
    for path in query:
        if path in texts:
            raise InputError(f"{path} is given twice", "Give each file once.")
        texts[path] = _read(path)
    found = assigned(texts, _parse_streams(stream), load_topology(topology))
    made = found.to_text()
    if form is not AssignmentForm.text:
        is_json = form is AssignmentForm.json
        made = json.dumps(found.to_json(), indent=2) + "\n" if is_json else found.to_hex()
    _write_words(query, out, made)


@app.command(cls=_Command)
def asm(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Instructions, one a line.")],
    out: WordFile = None,
    form: WordFormat = WordForm.hex,
    bits: Bits = [],  # noqa: B006  (as above)
    topology: WordsOf = None,
) -> None:
    """Assemble instructions for the blocks of a topology into words."""
    from penstock.cli.words import assembled, layout_of

    text = _read(file)
    _write_words([file], out, assembled(text, layout_of(bits, topology), form is WordForm.hex))


@app.command(cls=_Command)
def disasm(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Words, as asm writes them.")],
    out: WordFile = None,
    form: WordFormat = WordForm.hex,
    bits: Bits = [],  # noqa: B006  (as above)
    topology: WordsOf = None,
) -> None:
    """Show words as instructions, one a line."""
    from penstock.cli.words import disassembled, layout_of

    other = "Write words as asm gives them, or pass --format bytes."
    words = _read(file, other) if form is WordForm.hex else _read_bytes(file)
    _write_words([file], out, disassembled(words, layout_of(bits, topology)))


def _write_words(files: list[Path], out: Path | None, content: str | bytes) -> None:
    if out is not None:
        if out.exists() and any(file.samefile(out) for file in files):
            raise InputError(f"--out {out} is the input itself", "Name another file.")
        write(out, content)
    elif isinstance(content, bytes):
        sys.stdout.buffer.write(content)
    else:
        print(content, end="")


@checkpoints.command("verify", cls=_Command)
def verify_checkpoint(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="The folder of --checkpoint or checkpoint=, or a file that engine.save wrote.",
        ),
    ],
) -> None:
    """Check every file against its checksum, without running anything.

    Names each file that is damaged or missing, and exits with 1 if there is one.
    """
    if not path.exists():
        raise InputError(f"there is no {path}", "Check the path.")
    found = _verified(path)
    for damage in found.damages:
        _show_error(str(damage))
    if found.damages:
        raise typer.Exit(1)
    files = "1 file" if found.files == 1 else f"{found.files:,} files"
    print(f"{path}: {files}, {found.size:,} bytes, all as they were written")


@topologies.command("show", cls=_Command)
def show_topology(
    name: TopologyName,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw it into an SVG file instead.")
    ] = None,
) -> None:
    """Draw the blocks, their wires and the tree of their results."""
    from penstock.processor.topology.load import load_topology

    topology = load_topology(name)
    if svg is not None:
        write(svg, topology.to_svg())
        return
    print(topology.draw(get_terminal_size().columns if sys.stdout.isatty() else 100))


@topologies.command("check", cls=_Command)
def check_topology(name: TopologyName) -> None:
    """Say what is wrong with a topology, and what to write instead.

    Exits with 1 if its parts do not fit together.
    """
    from penstock.processor.topology.load import load_topology
    from penstock.processor.topology.text_drawing import counts

    try:
        topology = load_topology(name)
    except TopologyError as error:
        if not error.problems:  # there is no topology
            raise
        for problem in error.problems[:MOST_PROBLEMS]:
            _show_error(f"{name}: {problem.what}\n{problem.remedy}")
        more = len(error.problems) - MOST_PROBLEMS
        if more > 0:
            _show_error(f"{name}: {more:,} more problems; correct these first")
        raise typer.Exit(1) from error
    print(f"{name}: ok: {counts(topology)}; {counted(len(topology.wires), 'wire')}")


def _verified(path: Path) -> Verification:
    if path.is_dir():
        from penstock.engines.spark.resident.checkpoint import verify

        return verify(path)
    from penstock.engines.local.state import verify as verify_saved

    return verify_saved(path)


def _advise(checkpoint: Path | None) -> None:
    """Set the advice that is printed after an interrupt."""
    if checkpoint is not None:
        exit_signals.advise(f"the same command goes on from the checkpoint {checkpoint}")


def _warn_of_unread(given: Iterable[str], read: Iterable[str]) -> None:
    names = list(read)
    known = {name.lower() for name in names}
    for name in given:
        if name.lower() not in known:
            print(
                f"penstock: warning: the query does not read stream {name}; "
                f"it reads {' and '.join(names)}",
                file=sys.stderr,
            )


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", "Check the path.") from error


def _read(path: Path, unreadable: str = "Save it as UTF-8.") -> str:
    """The text of a file; ``unreadable`` says what to do if it is none."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", "Check the path.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text", unreadable) from error


def _parse_streams(options: list[str]) -> dict[str, str]:
    streams: dict[str, str] = {}
    for option in options:
        name, equals, path = option.partition("=")
        if not (name.strip() and equals and path):
            raise InputError(
                f"--stream {option} names no stream and file", "Write --stream R=r.parquet."
            )
        if name.strip() in streams:
            raise InputError(
                f"--stream {name.strip()} is given twice",
                "Give each stream once; several files of it go into one directory.",
            )
        streams[name.strip()] = path
    return streams
