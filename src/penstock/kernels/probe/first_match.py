"""The searches of SEMI and ANTI joins: one partner of a left tuple is enough.

See :mod:`penstock.kernels.predicate.generate_first` for what the kernels do, and for jumps. Both
searches go through the segments of an index, if there is one, and then through what follows them.
An entry is in one segment only, so the probes that meet it do so in their own order, whatever the
order of the segments. In large segments probes search by region, if all that match an entry are in
one region, or if the order of probes does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.kernels.merging import ranges_from
from penstock.kernels.predicate.generate_first import generate_for_entries, generate_for_probes
from penstock.kernels.predicate.predicate import Predicate
from penstock.kernels.probe.buckets import Segment
from penstock.kernels.probe.entry_index import OrderedProbes, ordered_probes
from penstock.kernels.probe.nested_loop import Columns, Pairs, shape_of

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]


@dataclass
class FirstMatches:
    """A search of one stored side, of which the entries from number ``first`` on are stored.

    ``lo`` and ``hi`` are the live ranges of the probes, which come in the order of their ranks.
    ``compared`` counts the comparisons so far, ``compared_in_segments`` those in an index.
    """

    predicate: Predicate
    constants: Sequence[np.generic]
    stored_side: int
    segments: Sequence[Segment]
    first: int
    lo: Indices
    hi: Indices
    probe: Columns
    stored: Columns
    compared: int = 0
    compared_in_segments: int = 0

    def partners(self, most: int) -> Pairs:
        """Up to ``most`` partners of each probe, by probe and then in the order of the search.

        With a larger ``most``, each probe has the same ones first.
        """
        parts = []
        wanted = np.full(len(self.lo), most, np.int64)
        probes = self._ordered(self.segments)
        for segment in (*self.segments, None):
            kernel = self._kernel(generate_for_probes, probes, segment, (wanted,))
            start, room = 0, max(1024, len(self.lo))
            while kernel is not None and start < len(self.lo):
                out = np.empty(room, np.int64)
                found, start = kernel(start, out)
                parts.append(out[:found])
                room *= 2
        pairs = np.concatenate(parts) if parts else np.empty(0, np.int64)
        ordered: Pairs = pairs[np.argsort(pairs >> 32, kind="stable")]
        return ordered

    def unsettled(self, jumps: Array, settles: bool, room_of: Callable[[], int]) -> Iterator[Pairs]:
        """The pairs with entries that are not settled, in parts; of an entry, by probe.

        If a match ``settles``, there is one pair of an entry at most, and it is settled. Else the
        caller settles entries, in ``jumps``, before it asks for the next part. ``room_of`` tells
        how many pairs the next part may have; one probe may have more.
        """
        keep_order = all(segment.layout.one_region for segment in self.segments)
        probes = self._ordered(self.segments if keep_order else ())
        for segment in (*self.segments, None):
            given = (jumps, settles) if segment is None else (jumps, settles, segment.jumps)
            kernel = self._kernel(generate_for_entries, probes, segment, given)
            start, factor = 0, 1
            while kernel is not None and start < len(self.lo):
                out = np.empty(factor * room_of(), np.int64)
                found, done = kernel(start, out)
                factor = 1 if found or done > start else 8 * factor
                start = done
                if found:
                    yield out[:found]

    def _ordered(self, segments: Sequence[Segment]) -> OrderedProbes:
        kinds = self.predicate.keys[1 - self.stored_side]
        return ordered_probes(kinds, segments, self.lo, self.hi, self.probe)

    def _kernel(
        self,
        generate: Callable[..., str],
        probes: OrderedProbes,
        segment: Segment | None,
        given: tuple[Any, ...],
    ) -> Callable[[int, Pairs], tuple[int, int]] | None:
        """The kernel for a segment, or for what follows all; None if that is nothing.

        It takes the probe to start from and the place for pairs, and returns their number and the
        probe to continue from.
        """
        where: tuple[Any, ...] = ()
        if segment is None:
            probe, stored = self.probe, self.stored.flat()
            done = self.segments[-1].last - self.first if self.segments else 0
            lo, hi = np.empty_like(self.lo), np.empty_like(self.hi)
            if not ranges_from(done, self.lo, self.hi, (lo, hi)):
                return None
        else:
            lo, hi, probe = probes.lo, probes.hi, probes.columns
            layout, stored = segment.layout, segment.columns
            ranges = layout.ranges(probes.keys)
            where = (
                probes.names, segment.first - self.first, segment.last - self.first,
                ranges.x0, ranges.x1, ranges.y0, ranges.y1, layout.columns,
                segment.offsets, segment.order,
            )  # fmt: skip
        shape = shape_of(1 - self.stored_side, self.probe, self.stored)
        function = self.predicate.kernel(
            (generate.__name__, shape, segment is None),
            lambda: generate(self.predicate, shape, segment is not None),
        )

        def call(start: int, out: Pairs) -> tuple[int, int]:
            found, compared, done = function(
                start, lo, hi, *given, *where, *probe.flat(), *stored, *self.constants, out
            )
            self.compared += int(compared)
            self.compared_in_segments += 0 if segment is None else int(compared)
            return int(found), int(done)

        return call
