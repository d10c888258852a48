"""The Online Programmable Block: a general block that queries come to by instructions.

It has five ports (Najafi 2019 Fig. 4.1.1): R comes in at the left and leaves at the right, S and
instructions come in at the right and leave at the left, and results leave below. A block hands
every slice of S on when it arrives, and every slice of R once it has been processed, with the
streams that queries of the block make of it. A block without a program passes everything.

Why a program in force is that of a position, although R and S come from opposite ends. Instructions
enter with S, behind all of S before their position. A block passes them on at once, so that they
come to the left end, and R behind their position waits there for them. From there their token goes
the way of R, behind all of R before the position. A block takes its instructions when their token
comes: then it has had all of R before the position, and all of S, since these stood before the
instructions. What comes behind the token by R, and behind the instructions by S, meets the new
program. S may be ahead of R: slices of S wait until R has come as far, so that both are of the same
positions when they are processed, and a join block inside ranks their tuples by position.

Why no slice waits for ever. A slice of R waits in a block for that of S with the same positions.
S comes to the block without waiting for R anywhere: blocks to the right have handed it on when it
came to them. Instructions wait for no tuple, and a token for no slice behind it.

The rule of the Coordinator Unit, that no window changes while the Processing Unit works, holds
because a step takes both slices and makes all of their rows.

A join that spans blocks has a core of the low-latency handshake join in each of them: its messages
go by the same wires from block to block, and :mod:`penstock.flows.low_latency_handshake.core` says
why they find every pair once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from penstock.blocks.contract import LETTERS, Batch, Measures, Port, Sent
from penstock.blocks.run import Run, concatenate
from penstock.processor.op_block.messages import (
    FAILED,
    PAIRS,
    ForCore,
    Programming,
    QueryOutput,
    Results,
    SharedRows,
    Slice,
    Token,
)
from penstock.processor.op_block.query_buffer import MakeBlock, QueryBuffer, QueryPart, R, S
from penstock.processor.op_block.shared_selections import Selected, SharedSelections
from penstock.program.isa.op_instructions import OPInstruction
from penstock.program.isa.words.decoding import decode
from penstock.program.isa.words.layout import WordLayout
from penstock.program.isa.words.packing import instructions

R_OUT, S_OUT, FINAL = "r-out", "s-out", "final"
STREAM_R = "stream-r"
BEHIND = {R: "left", S: "right"}
AHEAD = {R: "right", S: "left"}
OUT_OF = {"right": R_OUT, "left": S_OUT}
"""Where a core's neighbours are: behind and ahead of what comes by a port, and by which output."""
MOST_AHEAD = 16
"""How many slices S may be ahead of R in a block."""


class OPBlock:
    """A unit of a topology.

    Parameters
    ----------
    name, number
        Its name in the topology, and its number (B-ID), from 1.
    layout
        The layout of its instructions.
    make
        Makes the blocks that serve queries, by their instructions.
    """

    inputs: Sequence[Port] = (R, S)
    outputs: Sequence[Port] = (R_OUT, S_OUT, FINAL)

    def __init__(self, name: str, number: int, layout: WordLayout, make: MakeBlock) -> None:
        self.name = name
        self.number = number
        self._layout = layout
        self.queries = QueryBuffer(make)
        self._programs: deque[Programming] = deque()
        """Instructions whose tokens have not come yet."""
        self._of_s: deque[Slice] = deque()
        """Slices of S that R has not come to."""
        self._of_r: Slice | None = None
        """The slice of R that waits for S."""

    # -- reception --------------------------------------------------------------------------

    def needs(self, port: Port) -> Sequence[Port] | None:
        """A slice of R waits for that of S; S is handed on at once."""
        if port == R:
            return (R_OUT, FINAL) if self._of_r is None else None
        if self._of_r is not None:
            return self.outputs
        if len(self._of_s) >= MOST_AHEAD and not self._is_idle:
            return None
        return (S_OUT, FINAL) if self.queries.has_core else (S_OUT,)

    def passes(self, port: Port, message: Any) -> Port | None:
        """Slices go past a block without queries and without instructions that wait."""
        if not self._is_idle or type(message) is not Slice:
            return None
        return R_OUT if port == R else S_OUT

    @property
    def _is_idle(self) -> bool:
        return not (self.queries.parts or self._programs)

    def step(self, port: Port, message: Any) -> Iterable[Sent]:
        """Take a message."""
        if isinstance(message, Slice):
            return self._slice_of_r(message) if port == R else self._slice_of_s(message)
        if isinstance(message, Programming):
            return self._instructed(message)
        if isinstance(message, Token):
            return self._token(message)
        assert isinstance(message, ForCore), message
        return self._for_core(port, message)

    def forward(self, has_room: Callable[[Port], bool]) -> Sequence[Sent]:
        """Nothing: what waits goes on when a message comes."""
        return ()

    def _slice_of_s(self, of_s: Slice) -> Iterator[Sent]:
        yield S_OUT, of_s
        if self._is_idle:
            self._of_s.clear()  # queries that come later read what is behind their instructions
        else:
            self._of_s.append(of_s)
        of_r = self._of_r
        if of_r is not None and of_s.first == of_r.first:
            self._of_r = None
            yield from self._process(of_r)

    def _slice_of_r(self, of_r: Slice) -> Iterator[Sent]:
        while self._of_s and self._of_s[0].first < of_r.first:
            self._of_s.popleft()
        if self.queries.reads_s and not (self._of_s and self._of_s[0].first == of_r.first):
            self._of_r = of_r
            return
        yield from self._process(of_r)

    def _for_core(self, port: Port, message: ForCore) -> Iterator[Sent]:
        """Give a message to the core of its join, or pass it on."""
        query = message.query
        part = self.queries.parts.get(query)
        if part is None or part.core is None:
            yield OUT_OF[AHEAD[port]], message
            return
        try:
            for ahead, made in part.core.step(BEHIND[port], message.message):
                if ahead in OUT_OF:
                    yield OUT_OF[ahead], ForCore(query, made)
                else:
                    yield FINAL, Results((QueryOutput(query, PAIRS, made),))
        except Exception as error:  # of any kind: other queries must not miss the input
            yield FINAL, Results((QueryOutput(query, FAILED, error),))

    # -- instructions -----------------------------------------------------------------------

    def _instructed(self, message: Programming) -> Iterator[Sent]:
        """Take what is for this block, and pass the rest on (the Bypass Unit)."""
        addressed = _addressed(message.words, self._layout)
        if all([block != self.number for block, _ in addressed]):
            yield S_OUT, message
            return
        mine, rest = bytearray(), bytearray()
        for block, words in addressed:
            (mine if block == self.number else rest).extend(words)
        self._programs.append(replace(message, words=bytes(mine)))
        yield S_OUT, replace(message, words=bytes(rest))

    def _token(self, token: Token) -> Iterator[Sent]:
        """Take the instructions of a position, and pass their token on.

        An inner join over count windows, a selection and a projection make no rows by a change.
        """
        while self._programs and self._programs[0].serial <= token.serial:
            program = self._programs.popleft()
            told = _decoded(program.words, self._layout)
            self.queries.take(told, program.position, program.site)
        yield R_OUT, token

    # -- processing -------------------------------------------------------------------------

    def _process(self, of_r: Slice) -> Iterator[Sent]:
        """Let the queries of the block work on the two slices of the same positions."""
        of_s: Mapping[int, Run] = {}
        if self._of_s and self._of_s[0].first == of_r.first:
            of_s = self._of_s.popleft().runs
        for unit in self._units(of_r.only):
            made: dict[int, list[Run]] = {}
            if isinstance(unit, SharedSelections):
                yield from self._select_together(unit, of_r, made)
            else:
                yield from self._work(unit, of_r, of_s, made)
            of_r = of_r.joined_by(_collected(made))
        yield R_OUT, of_r

    def _units(self, only: int | None) -> Sequence[QueryPart | SharedSelections]:
        """What works on a slice, which may be for one query alone."""
        if only is None:
            return self.queries.units()
        part = self.queries.parts.get(only)
        return () if part is None else (part,)

    def _work(
        self,
        part: QueryPart,
        of_r: Slice,
        of_s: Mapping[int, Run],
        made: dict[int, list[Run]],
    ) -> Iterator[Sent]:
        """Let a query work on two slices; ``made`` collects the rows of its stream."""
        runs = part.runs(of_r.runs, of_s)
        if runs is None:
            return
        batch = Batch(of_r.first, of_r.next, runs)
        yield from self._kept_apart(part, part.step(batch), made)

    def _kept_apart(
        self, part: QueryPart, sent: Iterator[Sent], made: dict[int, list[Run]]
    ) -> Iterator[Sent]:
        """Send what a query makes; an error is that of the query alone."""
        try:
            for port, message in sent:
                if port != LETTERS:
                    if part.result_port != FINAL:
                        assert part.ports.gives is not None
                        made.setdefault(part.ports.gives, []).append(message.run)
                    has_rows = len(message.run) or message.run.controls
                    if part.result_port == STREAM_R or not has_rows:
                        continue
                yield FINAL, Results((QueryOutput(part.query, port, message),))
        except Exception as error:  # of any kind: other queries must not miss the input
            self.queries.remove(part.query)
            yield FINAL, Results((QueryOutput(part.query, FAILED, error),))

    def _select_together(
        self, unit: SharedSelections, of_r: Slice, made: dict[int, list[Run]]
    ) -> Iterator[Sent]:
        """Let queries whose selections are evaluated together work on a slice."""
        run = of_r.runs.get(unit.stream)
        if run is None:
            return
        try:
            evaluated = unit.evaluate(run)
        except Exception:  # of any kind: each query says by itself what is wrong
            for query in unit.queries:
                yield from self._work(self.queries.parts[query], of_r, {}, made)
            return
        for selected in evaluated:
            yield from self._share_out(selected, of_r, made)

    def _share_out(
        self, selected: Selected, of_r: Slice, made: dict[int, list[Run]]
    ) -> Iterator[Sent]:
        """Send the rows that several queries have selected, each query's with its select list."""
        try:
            rows = selected.tail.through(of_r.first, of_r.next, selected.run)
        except Exception:  # of any kind: each query says by itself what is wrong
            rows = None
        if rows is not None and not selected.feeds_streams:
            yield FINAL, Results((SharedRows(selected.queries, selected.bounds, rows),))
            return
        for query, own in selected.each():
            part = self.queries.parts[query]
            batch = Batch(of_r.first, of_r.next, (own,))
            yield from self._kept_apart(part, part.step_after_selection(batch), made)

    def restart(self) -> None:
        """Forget what was on its way; the queries stay, under the program in force."""
        self._programs.clear()
        self._of_s.clear()
        self._of_r = None

    # -- figures ----------------------------------------------------------------------------

    def measures(self) -> Measures:
        """The number of queries in it."""
        return {"queries": len(self.queries)}


@lru_cache(maxsize=16)
def _addressed(words: bytes, layout: WordLayout) -> tuple[tuple[int, bytes], ...]:
    """The instructions in words, and the blocks that they are for: once for all blocks in a row."""
    return tuple(instructions(words, layout))


@lru_cache(maxsize=256)
def _decoded(words: bytes, layout: WordLayout) -> tuple[OPInstruction, ...]:
    """What words say: once for those that come again, as when a query goes back and forth."""
    return tuple(decode(words, layout))


def _collected(made: Mapping[int, Sequence[Run]]) -> dict[int, Run]:
    return {stream: concatenate(runs) for stream, runs in made.items() if runs}
