"""The output of a run: its progress, its rows, its summary."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.cli.run.bounded import Run
    from penstock.cli.run.on_spark import SparkRun
    from penstock.cli.run.summary import Summary

    Work = Callable[[Callable[[int], None]], tuple[Summary, pa.Table | None]]


def write(path: Path, content: str | bytes) -> None:
    """Write the content to a file, a text as UTF-8."""
    try:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}",
            "Name a file that you may write to, where there is room.",
        ) from error


def with_progress(
    ready: Run | SparkRun,
    work: Work,
    watch: bool = False,
) -> tuple[Summary, pa.Table | None]:
    """Do the work and show a progress bar on a terminal or, with ``watch``, what the cores do."""
    if watch:
        return _watched(ready, work)
    if not sys.stderr.isatty():
        return work(lambda tuples: None)
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from penstock.cli.run.bounded import total_rows

    columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.fields[rate]}"), TimeElapsedColumn())
    start = "starting Spark" if ready.summary.engine == "spark" else ""
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("run", total=total_rows(ready.sources), rate=start)

        def advance(tuples: int) -> None:
            bar.update(task, advance=tuples)
            done, elapsed = bar.tasks[0].completed, bar.tasks[0].elapsed or 0.0
            rate = _rate(done / elapsed) if elapsed > 0 else ""
            bar.update(task, rate=f"{done:,.0f} tuples, {rate}")

        return work(advance)


def _watched(ready: Run | SparkRun, work: Work) -> tuple[Summary, pa.Table | None]:
    from rich.console import Console

    from penstock.cli.watch import Watch

    with Watch(Console(stderr=True), ready.query.metrics) as watch:
        return work(lambda tuples: watch.moved())


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f} tuples/s"


def _failed(count: int) -> str:
    """The count of divisions by zero, overflows and bad casts, which give NULL."""
    return f"{count:,} {'expression' if count == 1 else 'expressions'} failed and gave NULL"


def print_summary(summary: Summary, letters: Path | None) -> None:
    """Print the counts, and the first few letters."""
    from penstock.streams.display import counted

    sys.stdout.flush()
    rate = summary.tuples_per_second
    print(
        f"{counted(summary.tuples_in, 'tuple')} in, {counted(summary.rows_out, 'row')} out, "
        f"{summary.late:,} late, {counted(summary.dead_letters, 'dead letter')}"
        f"{f', {summary.shed:,} shed' if summary.shed else ''}"
        f"{f', {_failed(summary.expression_failures)}' if summary.expression_failures else ''}"
        f"{'' if rate is None else f', {_rate(rate)}'}",
        file=sys.stderr,
    )
    for letter in summary.letters:
        print(letter, file=sys.stderr)
    more = summary.late + summary.dead_letters - len(summary.letters)
    if more:
        where = f"all are in {letters}" if letters else "--letters FILE.jsonl writes them all"
        print(f"and {more:,} more; {where}", file=sys.stderr)


def print_table(table: pa.Table) -> None:
    """Print every row: in a framed table on a terminal, in aligned columns elsewhere."""
    from penstock.cli.tables import aligned, cells

    if not sys.stdout.isatty():
        print("\n".join(aligned(table)))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    framed = Table()
    for name in table.column_names:
        framed.add_column(escape(name))
    for row in cells(table):
        framed.add_row(*map(escape, row))
    Console().print(framed)
