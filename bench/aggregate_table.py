"""The table of ``docs/aggregates.md``, from the JSON of the benchmark ``aggregates``.

``python -m bench.aggregate_table docs/figures/aggregates.json`` prints it as Markdown; ``--into
docs/aggregates.md`` writes it there, between the marks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bench import published
from bench.flow_table import power
from bench.published import Published
from bench.tables import Row, command, markdown

HEAD: Row = ("work", "published or stock", "goal", "measured")


def table(found: dict[str, Any]) -> str:
    """All rows that have numbers."""
    return markdown(HEAD, lines(found))


def lines(found: dict[str, Any]) -> Iterator[Row]:
    """The required and the measured figures."""
    parts: tuple[tuple[str, Callable[[Any], Row]], ...] = (
        ("q3", q3),
        ("q3_shapes", shapes),
        ("q3_batches", batches),
        ("together", together),
        ("grouped", grouped),
        ("wid_against_panes", kernels),
        ("against_duckdb", duckdb),
        ("memory", memory),
    )
    for name, make in parts:
        if found.get(name):
            yield make(found[name])


def q3(entries: list[dict[str, Any]]) -> Row:
    """Query Q3 as its windows grow."""
    by_range = " / ".join(f"{entry['modules']:,}" for entry in entries)
    first, last = entries[0]["range"], entries[-1]["range"] // entries[-1]["slide"]
    work = (
        f"Query Q3, `RANGE` {first} s and up, then `RANGE/SLIDE` = {last:,}: {by_range} windows; "
        f"batches of {power(entries[0]['batch'])}"
    )
    rates = " / ".join(f"{millions(entry):.0f}" for entry in entries)
    growing = [entry for entry in entries if entry["slide"] == entries[0]["slide"]]
    medians = [millions(entry) for entry in growing]
    apart = 100 * (max(medians) / min(medians) - 1)
    span = f"{growing[0]['modules']} to {growing[-1]['modules']} windows"
    numbers = (published.WID_CIRCUIT, published.LIGHTSABER)
    asked = "300 M t/s, flat within 10 %"
    return work, "; ".join(map(said, numbers)), asked, f"{rates} M t/s, {span} {apart:.0f} % apart"


def said(number: Published) -> str:
    """A published rate, and of which system."""
    cores = f" on {number.cores} cores" if number is published.LIGHTSABER else ""
    return f"{number.what} {number.value / 1e6:.0f} M{cores}"


def shapes(entries: list[dict[str, Any]]) -> Row:
    """Query Q3 by the share of tuples that it counts and by their disorder."""
    parts = [
        f"1 in {1 / entry['share']:.0f}, "
        f"{'in order' if not entry['disorder'] else 'up to a minute late'}: "
        f"{millions(entry):.0f} M t/s"
        for entry in entries
    ]
    return "Query Q3, by the share of tuples that it counts", "–", "–", "; ".join(parts)


def batches(entries: list[dict[str, Any]]) -> Row:
    """Query Q3 by the size of a batch."""
    parts = [f"{power(entry['batch'])}: {millions(entry):.0f} M t/s" for entry in entries]
    return "Query Q3, by the size of a batch", "–", "–", "; ".join(parts)


def together(entries: dict[str, dict[str, Any]]) -> Row:
    """Five aggregates."""
    return "`COUNT`, `SUM`, `MIN`, `MAX`, `AVG` together", "–", "100 M t/s", named(entries)


def grouped(entries: dict[str, dict[str, Any]]) -> Row:
    """Ten thousand groups."""
    return "grouped by 10,000 keys, `COUNT` and `SUM`", "–", "40 M t/s", named(entries)


def kernels(entries: list[dict[str, Any]]) -> Row:
    """The kernels: the hardware's algorithm in software, and panes."""
    modules = sorted({entry["modules"] for entry in entries})
    rates = {(entry["kernel"], entry["modules"]): millions(entry) for entry in entries}
    parts = [
        f"`{kernel}` {' / '.join(f'{rates[kernel, n]:.0f}' for n in modules)} M t/s"
        for kernel in ("panes", "wid")
    ]
    work = f"kernels, {' / '.join(map(str, modules))} windows"
    return work, said(published.WID_CIRCUIT), "–", "; ".join(parts)


def duckdb(found: dict[str, Any]) -> Row:
    """One batch, compared with DuckDB."""
    entries = {name: entry for name, entry in found.items() if isinstance(entry, dict)}
    ours = entries.pop("penstock")
    work = f"grouped, over one table of {found['tuples']:,} tuples, {found['groups']:,} keys"
    stock = f"DuckDB {found['duckdb_version']}: " + "; ".join(
        f"{name.removeprefix('duckdb, ')} {millions(entry):.1f} M t/s"
        for name, entry in entries.items()
    )
    return work, stock, "–", f"{millions(ours):.1f} M t/s"


def memory(found: dict[str, Any]) -> Row:
    """Flat memory."""
    work = f"memory of four queries over {found['tuples']:,} tuples"
    most = max(sample["bytes"] for sample in found["samples"]) / 2**20
    measured = f"at most {found['growth']:.2f} times that after a tenth of them; {most:.0f} MiB"
    return work, "–", "flat", measured


def named(entries: dict[str, dict[str, Any]]) -> str:
    """Rates by name."""
    return "; ".join(f"{name} {millions(entry):.0f} M t/s" for name, entry in entries.items())


def millions(entry: dict[str, Any]) -> float:
    """The median rate, in millions a second."""
    return float(entry["tuples_per_second"]["median"] / 1e6)


def main(given: list[str] | None = None) -> None:
    """``python -m bench.aggregate_table AGGREGATES.json [--into DOCUMENT.md]``."""
    command("aggregate_table", "aggregates", table, __doc__, given)


if __name__ == "__main__":
    main()
