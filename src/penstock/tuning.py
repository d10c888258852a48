"""Tuning constants that tests give other values: one object, read at the time of use.

A threshold decides how a query is computed, or from which size on it is refused, never which rows
it gives. Tests lower it, so that a few tuples meet what only thousands would otherwise. A constant
that no test gives stays in the module that uses it.

Code reads a field of :data:`TUNING` where it needs it, once per batch rather than per tuple, and
keeps no copy in a module. :func:`given` is the only way to change a field.

>>> with given(longest_tail=3):
...     TUNING.longest_tail
3
>>> TUNING.longest_tail
1024
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from penstock.errors import PenstockError


@dataclass(frozen=True, slots=True)
class Tuning:
    """The tuning constants with their defaults, by room."""

    # -- kernels/probe ----------------------------------------------------------------------

    longest_tail: int = 1024
    """Entries: a longer tail of an index becomes a segment."""
    longest_chains: int = 1 << 16
    """Entries at most that the chains behind a segment have."""
    fewest_linked: int = 64
    """Entries that are linked into chains at once, at least: a scan of fewer costs less."""
    most_wasted: int = 1 << 13
    """Steps along chains without a match, beyond a few for each probe, until the chains are not
    used any more: keys that drift out of a layout all share the bucket at its end."""
    entries_in_cache: int = 1 << 16
    """Entries of a segment that still fits a second-level cache for the most part."""
    candidate_share: float = 0.25
    """Share of the entries: if a probe has more candidates, the nested loop is faster."""

    # -- kernels ----------------------------------------------------------------------------

    lists_to_compile: int = 64
    """Lists of dicts that are pushed before compiled code reads them."""

    # -- kernels/aggregate ------------------------------------------------------------------

    additions_per_carry: int = 1 << 28
    """Additions to a limb before its carry is propagated; more than the default do not fit."""
    small_int_table: int = 1 << 16
    """Entries: a table of integer keys of up to this many is always worth it."""

    # -- blocks/window ----------------------------------------------------------------------

    most_loose_texts: int = 1024
    """Single tuples whose texts may wait to be put into an Arrow batch."""

    # -- blocks/join ------------------------------------------------------------------------

    pairs_per_step: int = 1 << 20
    """Pairs of one step at most; a run that has more is processed in several steps."""
    longest_step: float = 0.1
    """Seconds after which a search that has found nothing lets its caller pause."""
    comparisons_per_call: int = 1 << 28
    """Comparisons of one compiled call of the nested loop: no signal is handled meanwhile."""
    smallest_dictionary: int = 65_536
    """Values that a dictionary may have, whatever the size of the windows."""
    tuples_to_pack: int = 4096
    """Stored tuples from which on a window is packed when most of them are expired."""
    first_order_revision: int = 1024
    """Arrivals of a stream after which a multiway join first looks at its probe order again, and
    then twice as many each time,"""
    last_order_revision: int = 1 << 20
    """up to these."""
    order_sample: int = 64
    """Arrivals that try the stages of other orders."""
    smallest_order_sample: int = 8
    """Arrivals of a stream in a batch that are enough for that."""
    small_batch: int = 4096
    """Tuples of one side up to which a batch is taken by one compiled call."""
    batches_to_compile: int = 64
    """Small batches of a join before that call is compiled."""
    longest_pause: int = 255
    """Small batches at most that go by before the call is tried again, after it has refused."""
    arrivals_to_share: int = 1 << 16
    """Arrivals from which on threads that store both sides gain more than they lose by sharing."""
    smallest_part: int = 512
    """Events that are worth another thread, at least."""
    most_live_per_arrival: float = 1.0
    """Tuples in the windows per arrival of a part, up to which a part makes its own index; a part
    is at most half of a batch, on one core too."""
    runs_before_sweep: int = 1
    """Runs of a join on one core that its lasting indexes serve first, to learn if they pay."""
    swept_arrivals: int = 1 << 17
    """Arrivals of a part with an index of its own: with more, the index leaves the cache."""
    swept_per_live: int = 4
    """Arrivals of such a part, at least, for each live tuple that it begins with."""
    light_probe: int = 1 << 18
    """Comparisons that take about as long as waking a thread: some fifty microseconds."""

    # -- blocks/aggregate -------------------------------------------------------------------

    cells_per_part: int = 1 << 18
    """Cells of one part, about: windows are closed in parts."""
    few_cells: int = 1 << 12
    """Cells: a table of at most this many is always dense."""
    sparse_factor: int = 8
    """A table becomes sparse when it would grow to this many times the cells that have a tuple."""
    dense_factor: int = 2
    """It becomes dense again when the table has at most this many times the cells."""
    narrow_row: int = 256
    """Cells: a row of fewer is not worth packing."""
    packed_share: int = 4
    """A row is packed if at most one in this many of its cells has a tuple."""
    most_stacked: int = 1 << 24
    """Cells that stacks have at most."""
    most_gathered: int = 1 << 20
    """Cells that are gathered at once, at most, to be combined with a single row."""
    fewest_turns_held: int = 2
    """Turns of late tuples and windows that close: in fewer, late tuples are folded in one turn
    after another."""
    most_cells: int = 1 << 31
    """Cells from which on a query is refused; numbers of more do not fit."""
    most_folded_cells: int = 1 << 21
    """Cells: a folding with more is sent on, and the next tuples begin an empty one."""
    fewest_groups: int = 1024
    """Groups: of fewer, those that are in no pane stay."""
    distinct_values: int = 1 << 16
    """Values kept, and entries left unsorted, before COUNT(DISTINCT) compacts them."""
    most_empty_windows: int = 10_000_000
    """Windows that one event may bring out with EMIT EMPTY; the oracle has the same limit."""

    # -- flows ------------------------------------------------------------------------------

    pairs_per_message: int = 1 << 18
    """Pairs of one message of a join core at most, unless a single probe has more."""
    pairs_per_run: int = 4096
    """Pairs that are waited for before the messages of join cores become a run of rows."""
    ranks_per_chunk: int = 1 << 18
    """Arrivals of one message at most: an index is updated once for all of them."""
    ranks_per_set: int = 1 << 14
    """Arrivals of one message of a multiway design at most: a batch has several, so that all stages
    have work; more messages cost more than that gains."""
    smallest_share: int = 1 << 12
    """Combinations of a multiway join, arrivals and intermediate results included, that are worth
    another thread."""
    arrivals_to_store_together: int = 1 << 14
    """Arrivals from which on threads store the keys of a multiway join together."""
    celljoin_k: int = 4096
    """Arrivals between two re-partitionings of celljoin: few, since a core compares replicas of all
    of them with its part; enough that scanning a window takes longer than copying it."""

    # -- processor/op_block -----------------------------------------------------------------

    fewest_shared_selections: int = 4
    """Selections over one stream from which on a block evaluates them together."""

    # -- engines ----------------------------------------------------------------------------

    most_shed_ranges: int = 65_536
    """Undrained ranges of shed tuples at most; then the newest grows, over admitted tuples too."""
    full_chunk: int = 65_536
    """Tuples of a chunk of Spark's state that is not merged any further."""
    most_column_chunks: int = 32
    """Chunks of Spark's state that the columns of a block are divided into, at most."""
    smallest_column_chunk: int = 16_384
    """Bytes of such a chunk, about, if there are several: it takes no longer than an empty one."""
    fewest_to_fold: int = 1024
    """Tuples that are folded where Spark reads them; fewer go to the cores as they are."""
    alive_check_interval: float = 0.5
    """Seconds between two checks, while waiting, that the cores on Spark are alive."""

    # -- connectors, cli --------------------------------------------------------------------

    csv_block: int = 1 << 21
    """Bytes of a CSV file that are read at once."""
    json_block: int = 1 << 22
    """Bytes of a JSON Lines file that are read at once."""
    run_batch_rows: int = 65_536
    """Tuples of one event of a run, at most."""


TUNING = Tuning()
"""The values in use. All threads of the process read them; other processes have the defaults."""

_KINDS: dict[type, str] = {int: "a whole number", float: "a number"}


@contextmanager
def given(**values: float) -> Iterator[None]:
    """Use other values of some constants, by their names, until the end of the ``with``.

    May be nested, and may decorate a function.

    >>> with given(longest_tails=3):
    ...     pass
    Traceback (most recent call last):
    penstock.errors.PenstockError: there is no tuning constant 'longest_tails'
    Write longest_tail; penstock/tuning.py lists all.
    """
    given_values = {name: _checked(name, value) for name, value in values.items()}
    before = {name: getattr(TUNING, name) for name in given_values}
    try:
        _set(given_values)
        yield
    finally:
        _set(before)


def _checked(name: str, value: float) -> float:
    """The value, if there is such a constant and it is of its kind."""
    defaults = {field.name: field.default for field in fields(Tuning)}
    if name not in defaults:
        alike = difflib.get_close_matches(name, defaults, 1)
        remedy = f"Write {alike[0]}; penstock/tuning.py" if alike else "penstock/tuning.py"
        raise PenstockError(f"there is no tuning constant {name!r}", f"{remedy} lists all.")
    kind = type(defaults[name])
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise PenstockError(
            f"the tuning constant {name} is {_KINDS[kind]}, not {value!r}",
            f"Give a value like its default, {defaults[name]}.",
        )
    return kind(value)


def _set(values: dict[str, float]) -> None:
    """Set fields of the object that every module has: it is frozen for all others."""
    for name, value in values.items():
        object.__setattr__(TUNING, name, value)
