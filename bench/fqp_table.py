"""The table of ``docs/topologies.md``, from the JSON of the benchmark ``fqp``.

``python -m bench.fqp_table docs/figures/fqp.json`` prints it as Markdown; ``--into
docs/topologies.md`` writes it there, between the marks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bench import published
from bench.tables import Row, command, markdown

HEAD: Row = ("work", "published", "goal", "measured")


def table(found: dict[str, Any]) -> str:
    """All rows that have numbers."""
    return markdown(HEAD, lines(found))


def lines(found: dict[str, Any]) -> Iterator[Row]:
    """The published, the required and the measured figures."""
    parts: tuple[tuple[str, Callable[[Any], Iterator[Row]]], ...] = (
        ("operators", operators),
        ("spanning", spanning),
        ("beside_the_planner", beside_the_planner),
        ("changes", changes),
        ("many_selections", many_selections),
    )
    for name, make in parts:
        if found.get(name):
            yield from make(found[name])


def operators(found: dict[str, Any]) -> Iterator[Row]:
    """What an OP-Block does."""
    works = {
        "selection": "one block: a selection, every other tuple passes",
        "projection": "one block: a projection",
        "join": "one block: a join with windows of 16",
        "chained join": "a join with windows of 64 on four blocks of 16",
    }
    goals = {
        name: f"{10 * number.value / 1e6:.1f} M t/s, 10 times one block"
        for name, number in published.OP_BLOCK.items()
    }
    goals["join"] = f"{published.OP_BLOCKS_24['join'].value / 1e6:.1f} M t/s, 24 blocks"
    for name, entry in found.items():
        one = published.OP_BLOCK.get(name)
        alone = f"{one.value / 1e6:.2f} M t/s; " if one else ""
        said = f"{alone}24 blocks {published.OP_BLOCKS_24[name].value / 1e6:.1f} M"
        yield works[name], said, goals.get(name, "–"), millions(entry)


def spanning(found: dict[str, dict[str, Any]]) -> Iterator[Row]:
    """A join that spans a chain."""
    chain, flow = found["OP-Chain of 16"], found["low-latency-handshake, 16 cores"]
    measured = (
        f"{millions(chain)}; `low-latency-handshake` with 16 cores {millions(flow)}, "
        f"{chain['of_the_first']:.2f} times as fast as that; in one block of 256 "
        f"{millions(found['one block'])}"
    )
    goal = "3 M t/s; not slower than `low-latency-handshake`"
    number = f"{published.OP_CHAIN.value / 1e6:.2f} M t/s"
    yield "a join with windows of 256 on an OP-Chain of 16 blocks of 16", number, goal, measured


def beside_the_planner(entries: list[dict[str, Any]]) -> Iterator[Row]:
    """A query in a block, and as the planner makes it."""
    for entry in entries:
        times = entry["block"]["of_the_first"]
        measured = f"{times:.2f} times as fast; {millions(entry['block'])}"
        work = f"`{entry['query']}` in one block, beside the same without a topology"
        yield work, "–", "at least 0.87 times as fast", measured


def changes(found: dict[str, dict[str, Any]]) -> Iterator[Row]:
    """A change while tuples flow."""
    goals = {"same keys": "p99 1 ms", "other keys": "p99 10 ms"}
    for name, entry in found.items():
        delays = (entry["delay_of_pushes_before"], entry["delay_of_pushes"])
        took, used = entry["change"], entry.get("change_by_processor_time")
        of_it = f", of the processor {used['p50_ms']:.2f} and {used['p99_ms']:.2f}" if used else ""
        measured = (
            f"p50 {took['p50_ms']:.2f} ms, p99 {took['p99_ms']:.2f} ms{of_it}; "
            f"pushes p99 {delays[1]['p99_ms']:.2f} ms (without changes {delays[0]['p99_ms']:.2f})"
        )
        work = f"a change to {name}, windows of {entry['window']:,}, 1 M t/s flow"
        yield work, "5 to 6 cycles of 8 ns", goals[name], measured


def many_selections(found: dict[str, dict[str, Any]]) -> Iterator[Row]:
    """1,000 selections."""
    many, apart = found["1,000"], found["1,000, each with its own blocks"]
    measured = (
        f"{many['cost_of_one']:.0f} times one of them, {many['cost_of_every_other']:.1f} times one "
        f"that gives every other tuple; {millions(many)}. Without a topology "
        f"{apart['cost_of_one']:.0f} times, {millions(apart)}"
    )
    work = "1,000 selections over one stream, one row a tuple in all"
    yield work, "–", "at most 20 times the cost of one", measured


def millions(entry: dict[str, Any]) -> str:
    """The rate, in millions of tuples per second of the processor."""
    rate = entry["by_processor_time"] / 1e6
    return f"{rate:,.0f} M t/s" if rate >= 100 else f"{rate:.3g} M t/s"


def main(given: list[str] | None = None) -> None:
    """``python -m bench.fqp_table FQP.json [--into DOCUMENT.md]``."""
    command("fqp_table", "fqp", table, __doc__, given)


if __name__ == "__main__":
    main()
