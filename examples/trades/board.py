"""What the queries say, on a terminal as a table that is drawn anew, elsewhere line by line."""

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

from penstock.streams.literals import format_rows
from penstock.streams.tables import cells, counted

LAST = 4
"""How many rows of a query are on the table."""
LATE = 4
"""How many late trades are."""
INTERVAL = 0.1
"""Seconds between two pictures."""


@dataclass
class Said:
    """What a query has said so far: how much, and the last of it."""

    columns: tuple[str, ...] = ()
    rows: int = 0
    late: int = 0
    last: deque[tuple[str, ...]] = field(default_factory=lambda: deque(maxlen=LAST))


class Board:
    """Shows the rows and the late tuples of queries as they come.

    Parameters
    ----------
    console
        Where it draws; loses nothing if that is no terminal: then each row is a line.
    clock
        Gives the seconds since any moment; they decide how often it is drawn.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._drawn = self._started = clock()
        self._said: dict[str, Said] = {}
        self._late: deque[str] = deque(maxlen=LATE)
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self.trades = 0

    def __enter__(self) -> Board:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """Leave the last picture on the screen, and say what it comes to."""
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)
            self._live.__exit__(*error)
        self._say(self._summary())

    def look(self, queries: Mapping[str, Any]) -> None:
        """Take what the queries have made since the last look, and show it."""
        for name, query in queries.items():
            said = self._said.setdefault(name, Said())
            if not query.derived:
                self._take_rows(name, said, query.rows())
            self._take_late(name, said, query.late().to_pylist())
        if self._live is not None and self._clock() - self._drawn >= INTERVAL:
            self._drawn = self._clock()
            self._live.update(self._picture(), refresh=True)

    def _take_rows(self, name: str, said: Said, rows: pa.Table) -> None:
        said.columns = tuple(rows.column_names)
        said.rows += rows.num_rows
        said.last.extend(cells(rows.slice(max(0, rows.num_rows - LAST))))
        if self._live is None:
            for batch in rows.to_batches():
                for row in format_rows(batch):
                    self._say(f"{name}: {row}")

    def _take_late(self, name: str, said: Said, late: Iterable[Mapping[str, Any]]) -> None:
        for letter in late:
            said.late += 1
            line = f"late {name}: {letter['stream']}: {letter['tuple']} ({letter['reason']})"
            self._late.append(line)
            if self._live is None:
                self._say(line)

    def _say(self, line: str) -> None:
        self._console.print(line, soft_wrap=True, highlight=False, markup=False)

    def _summary(self) -> str:
        """How much came in, and what each query made of it.

        >>> Board(Console())._summary()
        '0 trades in'
        """
        parts = [counted(self.trades, "trade") + " in"]
        return "; ".join(parts + [_title(name, said) for name, said in self._said.items()])

    def _picture(self) -> Group:
        """A table for each query, two in a row, and the last of the late trades below."""
        seconds = self._clock() - self._started
        head = Text(f"{seconds:.1f} s: {counted(self.trades, 'trade')} in")
        tables = [_table(name, said) for name, said in self._said.items() if said.columns]
        grid = Table.grid(padding=(0, 2))
        for pair in zip_longest(tables[::2], tables[1::2], fillvalue=""):
            grid.add_row(*pair)
        late = [Text(line, no_wrap=True, overflow="ellipsis") for line in self._late]
        return Group(head, grid, *late)


def _title(name: str, said: Said) -> str:
    """A query with how much it has made; a derived stream has only late tuples to tell."""
    rows = [counted(said.rows, "row")] if said.columns else []
    return f"{name}: {', '.join([*rows, f'{said.late:,} late'])}"


def _table(name: str, said: Said) -> Table:
    title = _title(name, said)
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, min_width=len(title))
    for column in said.columns:
        table.add_column(column, justify="left" if column == "Symbol" else "right", no_wrap=True)
    for row in said.last:
        table.add_row(*row)
    for _ in range(LAST - len(said.last)):
        table.add_row()  # so that what is below does not jump
    return table
