"""The Coordinator Unit of an OP-Block (Najafi 2019 §4.1.3).

*On each side of a block, only one of reception and transmission works at a time.* A transmission
begins with a request to the neighbour on that side, and nothing is sent before the neighbour has
granted it. From its grant until the tuples have come, the neighbour's side receives and sends
nothing. If both ask at once, the one on the left goes first: the one on the right, which sees that
its own request has crossed another, grants that, and its own is granted afterwards.

Why no two tuples pass each other unseen. Let r be in block i and s in block i + 1. If block i sends
r, block i + 1 has granted that, so its left side receives until r has come: s is still there when r
comes, and they meet. If block i + 1 sends s first, the right side of block i has granted that and
keeps r until s has come.

Why it does not come to a standstill. A run that has been granted is sent without any condition. A
request of R waits for the room that another run of R leaves, further right, and for a run of S that
has been granted; never for S that has not been granted, since R goes first. The last block has room
for R at any time, for it drops what is too much. So R moves; and where no R asks, S does.

*The contents of the windows do not change while the Processing Unit runs.* That is the order of the
phases of a step: a run is received and stored, the Processing Unit executes the operators on it,
and after that the transmission controllers begin. A step ends before the block takes another one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.flows.network.network import Port

LEFT: Port = "left"
RIGHT: Port = "right"
FREE, RECEPTION, TRANSMISSION = "free", "reception", "transmission"


@dataclass
class CoordinatorUnit:
    """Which controller works on each side of a block, and which ask to.

    ``asked``: the neighbour has sent a request that has not been granted. ``crossed``: a request
    has been sent by this block, and gives way to one of the neighbour's.
    """

    use: dict[Port, str] = field(default_factory=lambda: {LEFT: FREE, RIGHT: FREE})
    asked: dict[Port, bool] = field(default_factory=lambda: {LEFT: False, RIGHT: False})
    crossed: bool = False

    def ask(self, side: Port) -> None:
        """Note the request of a neighbour."""
        self.asked[side] = True

    def grant_reception(self, side: Port, has_room: bool) -> bool:
        """Let the reception controller of a side begin, if the neighbour asks and may send."""
        crosses = side == LEFT and self.use[side] == TRANSMISSION
        if not self.asked[side] or not has_room or not (crosses or self.use[side] == FREE):
            return False
        self.asked[side], self.use[side] = False, RECEPTION
        self.crossed = self.crossed or crosses
        return True

    def grant_transmission(self, side: Port) -> bool:
        """Let the transmission controller of a side send its request, if it may."""
        if self.use[side] != FREE:
            return False
        self.use[side] = TRANSMISSION
        return True

    def received(self, side: Port) -> None:
        """What the neighbour was granted has come; a request that gave way is still to be heard."""
        assert self.use[side] == RECEPTION, f"the {side} side was not granted"
        self.use[side] = FREE
        if side == LEFT and self.crossed:
            self.use[side], self.crossed = TRANSMISSION, False

    def transmitted(self, side: Port) -> None:
        """What this block was granted has been sent."""
        assert self.use[side] == TRANSMISSION, f"the {side} side has asked for nothing"
        self.use[side] = FREE
