"""Thresholds that tests lower, so that a few tuples meet what only thousands would otherwise."""

from __future__ import annotations

from contextlib import AbstractContextManager

from penstock import tuning


def low_thresholds(**more: float) -> AbstractContextManager[None]:
    """Indexes are used from the second tuple on, however little they help; windows are packed.

    Lists of dicts are read, and small batches are taken, by compiled code from the first one on.
    Probe orders are revised, by few tuples. ``more`` has other tuning constants to give for as
    long.
    """
    low = {
        "lists_to_compile": 0,
        "longest_tail": 1,
        "fewest_linked": 1,
        "entries_in_cache": 1,
        "candidate_share": 2.0,
        "tuples_to_pack": 1,
        "batches_to_compile": 0,
        "longest_pause": 1,
        "first_order_revision": 1,
        "smallest_order_sample": 1,
        "order_sample": 2,
    }
    return tuning.given(**(low | more))
