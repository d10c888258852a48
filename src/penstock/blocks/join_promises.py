"""What the output of a join promises: punctuations of the times in it, and its end."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from penstock.blocks.admission import Admitted, tick_to_physical
from penstock.blocks.join_side import JoinSide
from penstock.blocks.punctuator import Clock, Ticks
from penstock.blocks.ranks import Ranks
from penstock.blocks.run import Control, Ended, Promise
from penstock.streams.windows import Range

Indices = npt.NDArray[np.int64]


class OutputPromises:
    """What has been promised of a join's output so far; ``columns`` are those it has."""

    def __init__(self, kind: str, sides: tuple[JoinSide, JoinSide], clock: Clock) -> None:
        self.kind = kind
        self.sides = sides
        self.clock = clock
        self.columns: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
        self.promised: list[int | float] = [clock.lowest, clock.lowest]

    def rescale(self, side: JoinSide, ratio: int) -> None:
        """The clock of a side ticks faster from here on."""
        promised = np.array([self.promised[side.index]], self.clock.dtype)
        self.promised[side.index] = self.clock.scaled(promised, ratio)[0].item()

    def now(self, position: int) -> Iterator[Promise]:
        """What the output promises once a change has made its windows smaller."""
        for side in self.sides:
            column = self._time_column(side)
            if column is None or not isinstance(side.window, Range):
                continue
            other = np.array([self.sides[1 - side.index].punctuator.promise], self.clock.dtype)
            later = self.clock.earlier(other, side.window.size)[0].item()
            promise = min(side.punctuator.promise, later)
            if promise > self.promised[side.index]:
                self.promised[side.index] = promise
                yield Promise(position, column, tick_to_physical(side, promise), side.index)

    def _time_column(self, side: JoinSide) -> int | None:
        """Where the output has the time of a side; None if nothing can be promised of it."""
        hidden = self.kind in ("semi", "anti") and side.index == 1
        if hidden or side.time is None or not isinstance(side.window, Range):
            return None
        columns = self.columns[side.index]
        return columns.index(side.time.column) if side.time.column in columns else None

    def controls(
        self,
        admitted: tuple[Admitted, Admitted],
        ranks: Ranks,
        before: list[tuple[bool, int | float]],
    ) -> tuple[Control, ...]:
        """What the output promises, and its end once both inputs have ended."""
        made: list[Control] = []
        steps = [ranks.steps(side, a) for side, a in enumerate(admitted)]
        for side in self.sides:
            made.extend(self._promises(side, steps, ranks, [b[1] for b in before]))
        made.sort(key=lambda control: control.position)
        ends = [a.end_key for a in admitted if a.end_key is not None]
        if ends and all(side.ended for side in self.sides):
            made.append(Ended(max(ends) // 4))
        return tuple(made)

    def _promises(
        self,
        side: JoinSide,
        steps: list[tuple[Indices, Ticks]],
        ranks: Ranks,
        before: list[int | float],
    ) -> Iterator[Promise]:
        """After a join, r.t is at least min(P_R, P_S - T_R): older r have met all they will."""
        column = self._time_column(side)
        if column is None or not isinstance(side.window, Range):
            return
        events = np.union1d(steps[0][0], steps[1][0])
        if not len(events):
            return
        own, other = (
            _standing(events, steps[index], before[index]) for index in (side.index, 1 - side.index)
        )
        promised = np.minimum(own, self.clock.earlier(other, side.window.size))
        last = np.array([self.promised[side.index]], promised.dtype)
        rises = promised > np.concatenate((last, np.maximum(promised[:-1], last)))
        self.promised[side.index] = max(last[0], promised[-1]).item()
        positions = ranks.positions(events[rises]).tolist()
        for position, tick in zip(positions, promised[rises].tolist(), strict=True):
            yield Promise(position, column, tick_to_physical(side, tick), side.index)


def _standing(events: Indices, steps: tuple[Indices, Ticks], before: int | float) -> Ticks:
    """The promise in force right after each event."""
    values = np.concatenate((np.array([before], steps[1].dtype), steps[1]))
    standing: Ticks = values[np.searchsorted(steps[0], events, side="right")]
    return standing
