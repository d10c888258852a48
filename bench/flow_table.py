"""The table of ``docs/algorithms.md``, from the JSON of the benchmark ``flows``.

``python -m bench.flow_table docs/figures/flows.json`` prints it as Markdown; ``--into
docs/algorithms.md`` writes it there, between the marks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.flow_figures import FLOWS
from bench.tables import Row, command, markdown

HEAD: Row = ("work", "published", "goal", "measured")


def table(flows: dict[str, Any]) -> str:
    """All rows that have numbers, and below them every flow at the band join."""
    text = markdown(HEAD, headline(flows))
    if flows.get("best_flow"):
        text += f"\n{every_flow(flows['best_flow'], flows.get('nested_loops', {}))}\n"
    return text


def headline(flows: dict[str, Any]) -> Iterator[Row]:
    """The required and the measured figures."""
    for name, make in (
        ("count_windows", two_cores),
        ("best_flow", best),
        ("nested_loops", comparisons),
        ("tuple_at_a_time", latency),
        ("cost_of_order", order),
        ("cost_of_flow", cost),
    ):
        if flows.get(name):
            yield make(flows[name])


def two_cores(entries: list[dict[str, Any]]) -> Row:
    """SplitJoin from one core to two."""
    rates: dict[int, dict[int, float]] = {}
    for entry in entries:
        if entry["flow"] == "splitjoin" and entry["window"] <= 1 << 17:
            of_window = rates.setdefault(entry["window"], {})
            of_window[entry["cores"]] = entry["tuples_per_second"]["median"]
    ratios = [f"{of[2] / of[1]:.2f}×" for _, of in sorted(rates.items())]
    windows = " / ".join(power(window) for window in sorted(rates))
    work = f"`splitjoin`, nested loop, 1 → 2 cores, windows of {windows}"
    return work, "linear", "1.8×", " / ".join(ratios)


def best(entries: list[dict[str, Any]]) -> Row:
    """The best flow at each window."""
    rates: dict[int, tuple[float, str]] = {}
    for entry in entries:
        median = entry["tuples_per_second"]["median"]
        rates[entry["window"]] = max(rates.get(entry["window"], (0.0, "")), (median, entry["flow"]))
    windows = " / ".join(power(window) for window in sorted(rates))
    found = [f"{rate / 1e6:.1f} (`{flow}`)" for _, (rate, flow) in sorted(rates.items())]
    work = f"the best flow, `band` kernel, 2 cores, ordered outer, windows of {windows}"
    published = "5.2 K t/s (28 cores, 2^21)"
    return work, published, "25 / 13 / 3 M t/s", " / ".join(found) + " M t/s"


def comparisons(entries: dict[str, dict[str, Any]]) -> Row:
    """Handshake join's nested loop."""
    work = "`handshake`, nested loop, 2 cores, windows of 2^17"
    rate = entries["handshake"]["per_core"] / 1e9
    return work, "0.44 G comparisons/s/core", "2 G", f"{rate:.1f} G comparisons/s/core"


def latency(kernels: dict[str, dict[str, Any]]) -> Row:
    """Visiting latency of single tuples."""
    work = "tuple at a time, `splitjoin`, windows of 2^17, half load: visiting latency"
    parts = []
    for kernel, entry in kernels.items():
        visiting = entry["visiting"]
        if visiting is not None:
            times = f"p50 {duration(visiting['p50'])}, p99 {duration(visiting['p99'])}"
            parts.append(f"`{kernel}` at {entry['tuples_per_second']:,.0f} t/s: {times}")
    return work, "8.1 ms (28 cores, mean)", "p50 100 µs, p99 2 ms", "; ".join(parts)


def order(entries: list[dict[str, Any]]) -> Row:
    """The cost of order."""
    work = "cost of order, none → outer → inner, precision 1, `splitjoin`, 2 cores"
    parts = [
        f"`{e['kernel']}`, {power(e['window'])}, {e['rows_per_arrival']:.2g} rows an arrival: "
        f"outer {change(e['outer_ratio'])}, inner {change(e['inner_ratio'])}"
        for e in entries
    ]
    return work, "Fig. 5.6.8", "outer at most 10 %", "; ".join(parts)


def cost(entries: list[dict[str, Any]]) -> Row:
    """The cost of the flow itself."""
    work = "1 core of `splitjoin` against `three-step`"
    parts = [f"`{e['kernel']}`, {power(e['window'])}: {e['ratio']:.2f}×" for e in entries]
    return work, "–", "at least 0.9×", "; ".join(parts)


def every_flow(entries: list[dict[str, Any]], loops: dict[str, dict[str, Any]]) -> str:
    """Every flow at the band join."""
    windows = sorted({entry["window"] for entry in entries})
    rates = {(e["flow"], e["window"]): e["tuples_per_second"]["median"] / 1e6 for e in entries}
    head = ["flow", *(f"`band`, {power(w)}" for w in windows), "nested loop, 2^17"]
    rows = [head, ["---"] * len(head)]
    for flow in FLOWS:
        cells = [f"{rates[flow, w]:.2f} M t/s" if (flow, w) in rates else "–" for w in windows]
        loop = loops.get(flow)
        cells.append(f"{loop['per_core'] / 1e9:.1f} G comparisons/s/core" if loop else "–")
        rows.append([f"`{flow}`", *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def power(window: int) -> str:
    """A power of two as such."""
    return f"2^{window.bit_length() - 1}"


def duration(seconds: float) -> str:
    """In microseconds or milliseconds."""
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"


def change(ratio: float) -> str:
    """A ratio of rates as a cost or gain in per cent."""
    return f"{100 * (ratio - 1):+.0f} %".replace("-", "−")


def main(given: list[str] | None = None) -> None:
    """``python -m bench.flow_table FLOWS.json [--into DOCUMENT.md]``."""
    command("flow_table", "flows", table, __doc__, given)


if __name__ == "__main__":
    main()
