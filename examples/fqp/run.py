"""The case studies of Najafi 2019 ch. 4: queries on fixed topologies of OP-Blocks.

``python -m examples.fqp.run NAME`` shows the SQL of a case, the blocks that serve it and what they
are sent, runs it, and compares its rows with DuckDB's; a difference ends the program with status 1.
The cases are ``operation`` (section 4.1.4), ``chain`` and ``branches`` (4.2, Fig. 4.2.2 and 4.2.3),
and ``segments`` (4.4). ``--engine spark`` runs one on Spark, ``--tuples N`` with N customers.
"""

from __future__ import annotations

from penstock.cli.exit_signals import end_on_signals

if __name__ == "__main__":
    end_on_signals("fqp")  # before the other imports, which take a while

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console

import penstock as ps
from penstock.cli.assign import assigned

HERE = Path(__file__).parent
WIDEST = 100
"""Characters of a line of instructions; the texts of joins are longer."""
MOST_WORDS = 8
"""Chunks of words that are shown."""
AT_ONCE = 100
"""Tuples of a push, on average."""
INT = pa.int32()
LATER = "SELECT * FROM Customer_Stream WHERE Age > 25 AND Height < 180"
"""What the older customers are asked for once they have a height."""

Push = tuple[str, pa.Table]
"""A stream, and tuples with their position in the input."""


@dataclass(frozen=True)
class Case:
    """A case study.

    Parameters
    ----------
    title
        What it is, and its section.
    sql
        The file of its queries.
    topology
        What they stand on: a preset, or a file.
    pushes
        Makes its input, given a number of customers.
    check
        For each query, the same in DuckDB over tables that have the position ``pos``.
    change
        What the first query becomes when half of the input has come.
    """

    title: str
    sql: str
    topology: str
    pushes: Callable[[int], list[Push]]
    check: tuple[str, ...]
    change: str | None = None

    @property
    def text(self) -> str:
        """Its SQL."""
        return (HERE / self.sql).read_text(encoding="utf-8")

    @property
    def on(self) -> ps.Topology:
        """Its topology."""
        return ps.topology(
            HERE / self.topology if self.topology.endswith(".toml") else self.topology
        )


# -- input ----------------------------------------------------------------------------------------


def _customers(count: int, chance: np.random.Generator) -> dict[str, Any]:
    return {
        "Customer_ID": pa.array(range(count), INT),
        "Age": pa.array(chance.integers(10, 80, count), INT),
        "Gender": pa.array(chance.choice(("female", "male", "other"), count)),
        "Product_ID": pa.array(chance.integers(0, 5_000, count), INT),
    }


def _in_turns(tables: dict[str, pa.Table], chance: np.random.Generator) -> list[Push]:
    """Some tuples of each table in turn, each with its position in the whole."""
    found: list[Push] = []
    at, starts = 0, dict.fromkeys(tables, 0)
    while any(starts[name] < table.num_rows for name, table in tables.items()):
        for name, table in tables.items():
            part = table.slice(starts[name], int(chance.integers(1, 2 * AT_ONCE)))
            starts[name] += part.num_rows
            if part.num_rows:
                where = pa.array(np.arange(at, at + part.num_rows))
                found.append((name, part.append_column("pos", where)))
            at += part.num_rows
    return found


def payments(count: int) -> list[Push]:
    """Customers with a name, an age, and a price."""
    chance = np.random.default_rng(414)
    made = _customers(count, chance)
    names = [f"customer {number}" for number in range(count)]
    prices = pa.array(chance.integers(1, 1_000, count), INT)
    table = pa.table({"Name": names, "Age": made["Age"], "Price": prices})
    return _in_turns({"Customer_Stream": table}, chance)


def purchases(count: int) -> list[Push]:
    """Customers, and as many offers of products."""
    chance = np.random.default_rng(42)
    products = {
        "Product_ID": pa.array(chance.integers(0, 5_000, count), INT),
        "Price": pa.array(chance.integers(1, 1_000, count), INT),
    }
    tables = {"Customer": pa.table(_customers(count, chance)), "Product": pa.table(products)}
    return _in_turns(tables, chance)


def measured(count: int) -> list[Push]:
    """Customers, of which the second half has a height and a weight."""
    chance = np.random.default_rng(44)
    made = _customers(count, chance)
    later = np.arange(count) < count // 2
    heights = pa.array(chance.integers(150, 210, count), INT, mask=later)
    weights = pa.array(chance.integers(50, 120, count), INT, mask=later)
    columns = {name: made[name] for name in ("Customer_ID", "Age")}
    table = pa.table({**columns, "Height": heights, "Weight": weights})
    halves = (
        {"Customer_Stream": table.slice(0, count // 2)},
        {"Customer_Stream": table.slice(count // 2)},
    )
    first, second = (_in_turns(half, chance) for half in halves)
    return [*first, *((name, _moved(part, count // 2)) for name, part in second)]


def _moved(part: pa.Table, by: int) -> pa.Table:
    positions = part["pos"].to_numpy() + by
    return part.set_column(part.num_columns - 1, "pos", pa.array(positions))


# -- the cases ------------------------------------------------------------------------------------


def _join(condition: str, window: int) -> str:
    """The join of filtered customers and products over count windows, by positions."""
    return f"""
WITH c AS (SELECT *, row_number() OVER (ORDER BY pos) AS seq FROM Customer WHERE {condition}),
     p AS (SELECT *, row_number() OVER (ORDER BY pos) AS seq FROM Product),
     cs AS (SELECT c.*, coalesce(p.seq, 0) AS others FROM c ASOF LEFT JOIN p ON c.pos > p.pos),
     ps AS (SELECT p.*, coalesce(c.seq, 0) AS others FROM p ASOF LEFT JOIN c ON p.pos > c.pos)
SELECT cs.Customer_ID, ps.Product_ID, ps.Price FROM cs JOIN ps USING (Product_ID)
WHERE CASE WHEN cs.pos < ps.pos THEN cs.seq > ps.others - {window}
           ELSE ps.seq > cs.others - {window} END"""


_BOUGHT = (_join("Age > 25", 1536), _join("Age > 25 AND Gender = 'female'", 2048))
CASES = {
    "operation": Case(
        "A selection and a projection (Najafi 2019 §4.1.4)",
        "operation.sql",
        "fqp:chain:1:512",
        payments,
        ("SELECT Name, Price FROM Customer_Stream WHERE Age > 25",),
    ),
    "chain": Case(
        "Two joins on an OP-Chain (Najafi 2019 §4.2, Fig. 4.2.2)",
        "customers.sql",
        "fqp:chain:9:512",
        purchases,
        _BOUGHT,
    ),
    "branches": Case(
        "Two joins on a partially parallel topology (Najafi 2019 §4.2, Fig. 4.2.3)",
        "customers.sql",
        "two_branches.toml",
        purchases,
        _BOUGHT,
    ),
    "segments": Case(
        "Tuples wider than the port (Najafi 2019 §4.4)",
        "segments.sql",
        "segments.toml",
        measured,
        (
            "SELECT * EXCLUDE (pos) FROM Customer_Stream WHERE Age > 25 AND "
            "(Height IS NULL OR Height < 180)",
            "SELECT * EXCLUDE (pos) FROM Customer_Stream WHERE Age <= 25",
        ),
        LATER,
    ),
}


# -- a run ----------------------------------------------------------------------------------------


def statements(case: Case) -> Iterator[str]:
    """The statements of its SQL, one after the other."""
    lines = [line for line in case.text.splitlines() if not line.startswith("--")]
    for part in "\n".join(lines).split(";"):
        if part.strip():
            yield part.strip()


def flow(case: Case, engine: Any, pushes: list[Push]) -> dict[str, pa.Table]:
    """Install the queries, push the input, and return the rows of each query."""
    queries = {}
    for statement in statements(case):
        if statement.startswith("CREATE"):
            engine.sql(statement)
        else:
            name = f"{Path(case.sql).stem}-{len(queries) + 1}"
            queries[name] = engine.install(statement, name=name)
    half = sum(part.num_rows for _, part in pushes) // 2
    is_changed = case.change is None
    for stream, part in pushes:
        if not is_changed and part["pos"][0].as_py() >= half:
            is_changed = True
            next(iter(queries.values())).change(case.change)
        engine.push(stream, _as_it_comes(part.drop_columns("pos")))
    engine.wait()
    return {name: query.rows() for name, query in queries.items()}


def _as_it_comes(part: pa.Table) -> Any:
    """Tuples with the columns that they have: one that is empty has not been thought of yet."""
    empty = [name for name in part.column_names if part[name].null_count == part.num_rows]
    return part.drop_columns(empty).to_pylist() if empty else part


def differences(case: Case, rows: dict[str, pa.Table], pushes: list[Push]) -> dict[str, int]:
    """By query, how many rows differ from DuckDB's."""
    import duckdb

    found = {}
    with duckdb.connect() as db:
        for stream in dict.fromkeys(name for name, _ in pushes):
            db.register(stream, pa.concat_tables(part for name, part in pushes if name == stream))
        for check, (name, table) in zip(case.check, rows.items(), strict=True):
            wanted = Counter(db.execute(check).fetchall())
            there = Counter(tuple(row.values()) for row in table.to_pylist())
            found[name] = ((there - wanted) + (wanted - there)).total()
    return found


def show(case: Case, console: Console) -> None:
    """Print the SQL, the placement and the instructions."""
    placed = assigned({HERE / case.sql: case.text}, {}, case.on)
    console.print(f"{case.title}\n\n{case.text}", markup=False, highlight=False, soft_wrap=True)
    for line in placed.to_text().splitlines():
        cut = line if len(line) <= WIDEST else f"{line[:WIDEST]}…"
        console.print(cut, markup=False, highlight=False, soft_wrap=True)
    words = placed.to_hex().splitlines()
    bits = 8 * case.on.widths.chunk_bytes
    console.print(f"\n{len(words):,} chunks of {bits} bits:", highlight=False)
    console.print("\n".join(words[:MOST_WORDS]), highlight=False)
    if len(words) > MOST_WORDS:
        console.print(f"… and {len(words) - MOST_WORDS:,} more", highlight=False)
    console.print()


def main(given: list[str] | None = None, console: Console | None = None) -> int:
    """``python -m examples.fqp.run NAME [--engine local|spark] [--tuples N]``."""
    about = (__doc__ or "").replace("``", "")
    parser = argparse.ArgumentParser(prog="python -m examples.fqp.run", description=about)
    parser.add_argument("case", choices=CASES, help="the case study")
    parser.add_argument(
        "--engine", choices=("local", "spark"), default="local",
        help="in this process (unless given), or on Spark",
    )  # fmt: skip
    parser.add_argument(
        "--tuples", type=int, default=20_000, metavar="N", help="customers; 20,000 unless given"
    )
    arguments = parser.parse_args(given)
    if arguments.tuples < 1:
        parser.error(f"--tuples {arguments.tuples}: write a number from 1 on")
    console = console or Console(file=sys.stdout)
    case = CASES[arguments.case]
    show(case, console)
    pushes = case.pushes(arguments.tuples)
    with ps.connect(arguments.engine, topology=case.on) as engine:
        rows = flow(case, engine, pushes)
    wrong = differences(case, rows, pushes)
    tuples = sum(part.num_rows for _, part in pushes)
    console.print(f"{tuples:,} tuples in", highlight=False)
    for name, table in rows.items():
        same = "the same" if not wrong[name] else f"{wrong[name]:,} others"
        console.print(f"{name}: {table.num_rows:,} rows; DuckDB has {same}", highlight=False)
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
