"""A made-up result of the benchmark ``flows``, with figures that can be computed by hand."""

from __future__ import annotations

from typing import Any


def rate(median: float) -> dict[str, float]:
    return {"median": median, "slowest": median / 2, "fastest": median * 2, "runs": 3}


def measured(median: float, window: int, **more: Any) -> dict[str, Any]:
    return {"window": window, "tuples_per_second": rate(median), **more}


def latency(seconds: float) -> dict[str, float]:
    return {"p50": seconds, "p99": 10 * seconds, "mean": 2 * seconds, "count": 9}


FLOWS: dict[str, Any] = {
    "rows_checked": 1,
    "count_windows": [
        measured(100.0, 1 << 14, flow="three-step", cores=1),
        measured(100.0, 1 << 14, flow="splitjoin", cores=1),
        measured(190.0, 1 << 14, flow="splitjoin", cores=2),
        measured(2.0, 1 << 21, flow="splitjoin", cores=1),
        measured(3.0, 1 << 21, flow="splitjoin", cores=2),
    ],
    "best_flow": [
        measured(9e6, 1 << 14, flow="three-step"),
        measured(26e6, 1 << 14, flow="shared"),
        measured(2e6, 1 << 20, flow="three-step"),
        measured(1e6, 1 << 20, flow="shared"),
    ],
    "nested_loops": {"handshake": {"per_core": 2.25e9}, "shared": {"per_core": 4e9}},
    "tuple_at_a_time": {
        "band": {"tuples_per_second": 5_000.0, "visiting": latency(90e-6)},
        "nested-loop": {"tuples_per_second": 2_000.0, "visiting": None},
    },
    "cost_of_order": [
        {"kernel": "band", "window": 1 << 17, "rows_per_arrival": 0.5,
         "outer_ratio": 0.96, "inner_ratio": 1.02},
    ],
    "cost_of_flow": [{"kernel": "band", "window": 1 << 14, "ratio": 0.93}],
    "handshake_scaling": [
        {"cores": 1, "per_stream": {"10": 2_000.0, "15": 1_500.0}},
        {"cores": 2, "per_stream": {"10": 2_800.0, "15": 2_100.0}},
    ],
    "time_windows": [
        {"flow": "splitjoin", "cores": 2, "minutes": 15, "sustained": 4_000.0},
        {"flow": "splitjoin", "cores": 1, "minutes": 15, "sustained": 2_900.0},
    ],
    "time_window_latency": [
        {"flow": "splitjoin", "cores": 2, "minutes": 15, "visiting": latency(1e-3),
         "stages": {"distribution": latency(1e-4), "execution": latency(2e-3)}},
        {"flow": "splitjoin", "cores": 2, "minutes": 5, "visiting": None, "stages": {}},
    ],
    "selectivity": [
        measured(50.0, 1 << 13, kernel="band", sub_window=1 << 12, share=1e-6),
        measured(60.0, 1 << 13, kernel="band", sub_window=1 << 12, share=0.0),
    ],
    "precision": [
        {"sub_window": 4_096, "match_rate": 4e-6,
         "tuples_per_second": {"none": 200.0, "outer": 195.0, "1": 100.0, "4": 150.0}},
    ],
    "hops": [
        {"flow": "handshake", "cores": 2, "window": 128, "hops": 17.0},
        {"flow": "splitjoin", "cores": 2, "branching": 8, "hops": 4.0},
        {"flow": "celljoin", "cores": 2, "hops": 3.0},
    ],
}  # fmt: skip
