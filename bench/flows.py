"""Flows: how cores divide one join. Throughput, latency, the cost of order, the cost of a flow.

All on the papers' two-dimensional band join (:mod:`bench.band_join`), through the whole engine from
Arrow batches to result rows, on two cores unless noted. t/s counts arrivals of both streams.
Contestants alternate in one run, and give the same rows there (:mod:`bench.flow_runs`); rows and
their order are also compared with those of three-step.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from bench import flow_shapes
from bench.flow_hops import hops
from bench.flow_latency import WARM, paced, sustained
from bench.flow_runs import FlowOptions, band, compare, contestant, full, medians
from bench.flow_shapes import COMPARISONS, near, turn_of

FLOWS = ("three-step", "shared", "splitjoin", "celljoin", "handshake", "low-latency-handshake")
UNORDERED = ("handshake", "low-latency-handshake")


def contestants(kernel: str, order: str) -> dict[str, FlowOptions]:
    """Every flow on two cores, with that order if the flow supports it."""
    return {
        flow: FlowOptions(flow, 2, kernel, "none" if flow in UNORDERED else order) for flow in FLOWS
    }


def check(window: int = 3_000, count: int = 12_000) -> int:
    """Check that every flow, kernel and order gives the rows of three-step; returns their number.

    Rows in inner order must be equal in order; in outer order, those of one arrival in any order.
    """
    work = near(window, 40)
    merged = work.make(np.random.default_rng(2), count)
    expected = made(work.query, work.ddl, merged, FlowOptions("three-step", order="inner"))
    for kernel in ("nested-loop", "band"):
        for flow in FLOWS:
            for order in ("none",) if flow in UNORDERED else ("none", "outer", "inner"):
                rows = made(work.query, work.ddl, merged, FlowOptions(flow, 2, kernel, order))
                same = rows if order == "inner" else in_order(rows)
                want = expected if order == "inner" else in_order(expected)
                assert same.equals(want), f"{flow}, {kernel}, {order}: other rows than three-step"
    return int(expected.num_rows)


def made(query: str, ddl: str, merged: Any, options: FlowOptions) -> pa.Table:
    """All rows of an input, in several batches."""
    with ps.connect("local", batch_rows=4_096, buffer_rows=1 << 28) as engine:
        engine.sql(ddl)
        installed = engine.install(query, **options.arguments())
        engine.feed([merged])
        engine.wait()
        return installed.rows().combine_chunks()


def in_order(rows: pa.Table) -> pa.Table:
    """The rows by their values."""
    return rows.sort_by([(name, "ascending") for name in rows.schema.names]).combine_chunks()


def best_flow() -> list[dict[str, Any]]:
    """The ``band`` kernel, ordered outer: every flow, windows of 2^14, 2^17 and 2^20."""
    found = []
    for bits, turn in ((14, 1 << 20), (17, 1 << 20), (20, 1 << 21)):
        window = 1 << bits
        entries = compare(band(window), window, contestants("band", "outer"), turn)
        found += [{"flow": flow, **entry} for flow, entry in entries.items()]
    return found


def one_core() -> dict[str, dict[str, Any]]:
    """The ``band`` kernel, windows of 2^14: one core against two that share the windows."""
    window = 1 << 14
    flows = {flow: FlowOptions(flow, 2, "band", "outer") for flow in ("three-step", "shared")}
    return compare(band(window), window, flows, 1 << 20, turns=15)


def nested_loops() -> dict[str, Any]:
    """The nested loop in every flow, windows of 2^17: comparisons per second and core."""
    window = 1 << 17
    entries = compare(
        band(window), window, contestants("nested-loop", "outer"), COMPARISONS // window
    )
    for flow, entry in entries.items():
        cores = 1 if flow == "three-step" else 2
        entry["per_core"] = entry["comparisons_per_second"]["median"] / cores
    return entries


def cost_of_flow() -> list[dict[str, Any]]:
    """One core of SplitJoin against three-step."""
    found = []
    for kernel, bits, turn in (
        ("nested-loop", 14, COMPARISONS >> 14),
        ("nested-loop", 17, COMPARISONS >> 17),
        ("band", 14, 1 << 20),
        ("band", 17, 1 << 20),
    ):
        window = 1 << bits
        flows = {
            flow: FlowOptions(flow, 1, kernel, "outer") for flow in ("three-step", "splitjoin")
        }
        rates = medians(compare(band(window), window, flows, turn, turns=5))
        ratio = rates["splitjoin"] / rates["three-step"]
        found.append({"kernel": kernel, "window": window, "ratio": ratio, **rates})
    return found


def cost_of_order() -> list[dict[str, Any]]:
    """SplitJoin on two cores: none, outer, inner, with precision 1."""
    found = []
    for kernel, bits, distance in (
        ("nested-loop", 17, 10),
        ("nested-loop", 14, 316),
        ("band", 17, 10),
        ("band", 14, 316),
    ):
        window = 1 << bits
        turn = turn_of(window, distance, COMPARISONS if kernel == "nested-loop" else window << 19)
        flows = {
            order: FlowOptions("splitjoin", 2, kernel, order)
            for order in ("none", "outer", "inner")
        }
        entries = compare(near(window, distance), window, flows, turn, turns=5)
        rates = medians(entries)
        found.append(
            {
                "kernel": kernel,
                "window": window,
                "rows_per_arrival": entries["none"]["rows_per_arrival"],
                "outer_ratio": rates["outer"] / rates["none"],
                "inner_ratio": rates["inner"] / rates["none"],
                **rates,
            }
        )
    return found


def tuple_at_a_time(seconds: float = 3.0) -> dict[str, Any]:
    """Single tuples, windows of 2^17, at half of the rate that SplitJoin sustains so."""
    window = 1 << 17
    found = {}
    for kernel in ("band", "nested-loop"):
        rng = np.random.default_rng(9)
        work = band(window)
        options = FlowOptions("splitjoin", 2, kernel, "outer")
        with contestant(work, options, full(work, window, rng)) as one:
            most = sustained(one, work.make(rng, WARM + 3_000))
            count = int(most / 2 * seconds)
            found[kernel] = {
                "window": window,
                "sustained": most,
                **paced(one, work.make(rng, count), most / 2),
            }
    return found


def run() -> dict[str, Any]:
    """All of it."""
    found: dict[str, Any] = {"rows_checked": noted(check)}
    for name, part in (
        ("count_windows", flow_shapes.count_windows),
        ("best_flow", best_flow),
        ("nested_loops", nested_loops),
        ("tuple_at_a_time", tuple_at_a_time),
        ("cost_of_order", cost_of_order),
        ("cost_of_flow", cost_of_flow),
        ("handshake_scaling", flow_shapes.handshake_scaling),
        ("time_windows", flow_shapes.time_windows),
        ("selectivity", flow_shapes.selectivity),
        ("precision", flow_shapes.precision),
        ("hops", hops),
    ):
        found[name] = noted(part)
    found["time_window_latency"] = noted(
        lambda: flow_shapes.time_window_latency(found["time_windows"]), "time_window_latency"
    )
    return found


def noted(part: Callable[[], Any], name: str | None = None) -> Any:
    """Run a part, and print its time."""
    start = time.perf_counter()
    found = part()
    taken = time.perf_counter() - start
    print(f"bench: flows, {name or part.__name__}: {taken:.0f} s", file=sys.stderr, flush=True)
    return found
