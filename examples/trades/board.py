"""The results of the queries: a live table on a terminal, elsewhere line by line."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import pyarrow as pa
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.cli.tables import cells
from penstock.streams.display import counted
from penstock.streams.literals import format_rows

LAST = 4
"""Rows of a query on the table."""
LATE = 4
"""Late trades on the table."""
INTERVAL = 0.1
"""Seconds between two refreshes."""


@dataclass
class QueryResults:
    """The results of a query so far: their number, and the last of them."""

    columns: tuple[str, ...] = ()
    rows: int = 0
    late: int = 0
    last: deque[tuple[str, ...]] = field(default_factory=lambda: deque(maxlen=LAST))


class Board:
    """Shows the rows and the late tuples of queries as they come.

    Parameters
    ----------
    console
        The output; if it is not a terminal, each row is a line.
    clock
        Returns seconds; they decide how often the table is drawn.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._drawn = self._started = clock()
        self._results: dict[str, QueryResults] = {}
        self._late: deque[str] = deque(maxlen=LATE)
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self.trades = 0

    def __enter__(self) -> Board:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """Leave the last table on the screen, and print a summary."""
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)
            self._live.__exit__(*error)
        self._say(self._summary())

    def look(self, queries: Mapping[str, Any]) -> None:
        """Drain the queries, and show the new rows."""
        for name, query in queries.items():
            results = self._results.setdefault(name, QueryResults())
            if not query.derived:
                self._take_rows(name, results, query.rows())
            self._take_late(name, results, query.late().to_pylist())
        if self._live is not None and self._clock() - self._drawn >= INTERVAL:
            self._drawn = self._clock()
            self._live.update(self._picture(), refresh=True)

    def _take_rows(self, name: str, results: QueryResults, rows: pa.Table) -> None:
        results.columns = tuple(rows.column_names)
        results.rows += rows.num_rows
        results.last.extend(cells(rows.slice(max(0, rows.num_rows - LAST))))
        if self._live is None:
            for batch in rows.to_batches():
                for row in format_rows(batch):
                    self._say(f"{name}: {row}")

    def _take_late(
        self, name: str, results: QueryResults, late: Iterable[Mapping[str, Any]]
    ) -> None:
        for letter in late:
            results.late += 1
            line = f"late {name}: {letter['stream']}: {letter['tuple']} ({letter['reason']})"
            self._late.append(line)
            if self._live is None:
                self._say(line)

    def _say(self, line: str) -> None:
        self._console.print(line, soft_wrap=True, highlight=False, markup=False)

    def _summary(self) -> str:
        """The number of trades, and of each query's rows.

        >>> Board(Console())._summary()
        '0 trades in'
        """
        parts = [counted(self.trades, "trade") + " in"]
        return "; ".join(parts + [_title(name, results) for name, results in self._results.items()])

    def _picture(self) -> Group:
        """A table for each query, two in a row, and the last of the late trades below."""
        seconds = self._clock() - self._started
        head = Text(f"{seconds:.1f} s: {counted(self.trades, 'trade')} in")
        tables = [
            _table(name, results) for name, results in self._results.items() if results.columns
        ]
        grid = Table.grid(padding=(0, 2))
        for pair in zip_longest(tables[::2], tables[1::2], fillvalue=""):
            grid.add_row(*pair)
        late = [Text(line, no_wrap=True, overflow="ellipsis") for line in self._late]
        return Group(head, grid, *late)


def _title(name: str, results: QueryResults) -> str:
    """A query with its number of rows; a derived stream has late tuples only."""
    rows = [counted(results.rows, "row")] if results.columns else []
    return f"{name}: {', '.join([*rows, f'{results.late:,} late'])}"


def _table(name: str, results: QueryResults) -> Table:
    title = _title(name, results)
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, min_width=len(title))
    for column in results.columns:
        table.add_column(column, justify="left" if column == "Symbol" else "right", no_wrap=True)
    for row in results.last:
        table.add_row(*row)
    for _ in range(LAST - len(results.last)):
        table.add_row()  # so that the tables below do not move
    return table
