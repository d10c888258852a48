"""The blocks of one query, connected as its program says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pyarrow as pa

from penstock.blocks.aggregate import AggregateBlock
from penstock.blocks.aggregate_clock import Closings
from penstock.blocks.core_figures import core_figures
from penstock.blocks.join import JoinBlock
from penstock.blocks.latency import latencies
from penstock.blocks.order import OrderBlock
from penstock.blocks.partial_batch import PartialBatch
from penstock.blocks.project import ProjectBlock
from penstock.blocks.run import Run, Share, concatenate, empty_run
from penstock.blocks.screen import screen
from penstock.blocks.select import SelectBlock
from penstock.blocks.union import UnionBlock
from penstock.flows.make import make_aggregate, make_join, meeting_of
from penstock.program.blocks import (
    AggregateRows,
    BlockInstruction,
    JoinStreams,
    OrderRows,
    Program,
    ProjectColumns,
    ScanStream,
    SelectRows,
    SetWindow,
    UnionRows,
)
from penstock.program.flow_choice import Flow
from penstock.streams.windows import TimeAttribute

Block = JoinBlock | AggregateBlock | SelectBlock | OrderBlock | ProjectBlock | UnionBlock


class Pipeline:
    """Blocks by number. Configured by instructions alone, the first time and every later one.

    With a ``share`` it does its part of a query that :func:`can_share` lets be shared: the
    pipelines of all cores together make every row once. A join stores its part of the tuples, an
    aggregate has its part of the groups; where nothing is stored, each pipeline takes its part of
    every run. With a ``flow`` its joins are
    shared by the cores of that flow. ``promises`` False: nobody reads its rows as a stream, so that
    what aggregates promise of them need not be told.
    """

    def __init__(
        self,
        program: Program,
        compile_predicates: bool = True,
        share: Share | None = None,
        flow: Flow | None = None,
        promises: bool = True,
    ) -> None:
        self.program = program
        self._promises = promises
        self.flow = flow
        self._share = share
        self._compile = compile_predicates
        self._layout: dict[int, BlockInstruction] = {}
        self.blocks: dict[int, Block] = {}
        for instruction in program.instructions:
            self._send(instruction)

    def _send(self, instruction: BlockInstruction) -> None:
        """Deliver an instruction to its block; the first one for a block brings it into being."""
        number = instruction.block
        if not isinstance(instruction, SetWindow):
            self._layout[number] = instruction
        if isinstance(instruction, ScanStream):
            return
        block = self.blocks.get(number)
        if block is None:
            self.blocks[number] = self._make(instruction)
        else:
            block.program(instruction)  # type: ignore[arg-type]

    def _make(self, instruction: BlockInstruction) -> Block:
        if isinstance(instruction, JoinStreams):
            left, right = (self._stream(number) for number in instruction.inputs)
            if self.flow is None:
                return JoinBlock(instruction, (left, right), self._compile, self._share)
            return make_join(instruction, (left, right), self._compile, self.flow)
        if isinstance(instruction, AggregateRows):
            source = self._layout[instruction.input]
            stream = source.stream.name if isinstance(source, ScanStream) else ""
            block = make_aggregate(instruction, stream, self.flow)
            block.promises, block.share = self._promises, self._share
            return block
        if isinstance(instruction, OrderRows):
            return OrderBlock(instruction)
        if isinstance(instruction, SelectRows):
            return SelectBlock(instruction)
        if isinstance(instruction, ProjectColumns):
            return ProjectBlock(instruction)
        assert isinstance(instruction, UnionRows)
        return UnionBlock(instruction)

    def _stream(self, number: int) -> str:
        scan = self._layout[number]
        assert isinstance(scan, ScanStream)
        return scan.stream.name

    @property
    def joins(self) -> list[JoinBlock]:
        return [block for block in self.blocks.values() if isinstance(block, JoinBlock)]

    @property
    def aggregates(self) -> list[AggregateBlock]:
        return [block for block in self.blocks.values() if isinstance(block, AggregateBlock)]

    @property
    def failures(self) -> int:
        return sum(
            block.failures.count
            for block in self.blocks.values()
            if not isinstance(block, UnionBlock)
        )

    def process(self, runs: Mapping[str, Run]) -> Iterator[Run]:
        """Push one run per stream through; ``runs`` is by the stream's name in lower case.

        Tuples without a time come out as dead letters, once each, before any block sees them.
        """
        inputs: dict[int, Run] = {}
        screened: dict[str, Run] = {}
        for scan in self.program.scans:
            name = scan.stream.name.lower()
            if name not in screened:
                run = runs.get(name, None)
                run = empty_run(scan.stream.schema) if run is None else run
                run = run if self._takes_words(name) else run.plain
                if self._share is not None and not (self.program.joins or self.aggregates):
                    run = _part(run, self._share)
                times, floating = self._times(name)
                screened[name] = screen(run, scan.stream.name, times, floating)
                inputs[scan.block] = screened[name]
            else:
                inputs[scan.block] = replace(screened[name], letters=())
        return self._produce(max(self._layout), inputs)

    def _takes_words(self, stream: str) -> bool:
        """Whether whatever reads the stream makes use of dictionary-encoded columns."""
        scans = {s.block for s in self.program.scans if s.stream.name.lower() == stream}
        return scans <= {aggregate.input for aggregate in self.program.aggregates}

    def _times(self, stream: str) -> tuple[list[TimeAttribute], bool]:
        """The attributes that tell the time of a stream's tuples; whether clocks are floats."""
        times: list[TimeAttribute] = []
        floating = False
        for instruction in self.program.instructions:
            if isinstance(instruction, SetWindow) and instruction.time is not None:
                join = self._layout[instruction.block]
                assert isinstance(join, JoinStreams)
                floating = floating or join.float_clock
                if self._stream(join.inputs[instruction.side]).lower() == stream:
                    times.append(instruction.time)
            elif (
                isinstance(instruction, AggregateRows)
                and instruction.time is not None
                and self._stream(instruction.input).lower() == stream
            ):
                times.append(instruction.time)
        return list(dict.fromkeys(times)), floating

    def complete(self) -> Iterator[Run]:
        """The rows of what has arrived that a flow has not found yet, a few at a time."""
        joins = self._numbered_joins()
        for number, block in joins:
            for run in block.complete():
                others = {n: [other.nothing()] for n, other in joins if n != number}
                yield from self._produce(max(self._layout), {}, {**others, number: [run]})

    def _numbered_joins(self) -> list[tuple[int, JoinBlock]]:
        return [(n, block) for n, block in self.blocks.items() if isinstance(block, JoinBlock)]

    def change(self, program: Program, position: int, flow: Flow | None = None) -> Iterator[Run]:
        """Send the instructions of another program; yield what the change makes expire.

        ``flow`` is another one only in the order that it promises.
        """
        yield from self.complete()
        if flow is not None and flow != self.flow:
            self.flow = flow
            for join in self.joins:
                join.promise_order(lambda kind: meeting_of(flow, kind))
        self.program = program
        for instruction in program.instructions:
            self._send(instruction)
        settled: dict[int, Iterable[Run]] = {
            number: [block.settle(position)] for number, block in self._numbered_joins()
        }
        for number, block in self.blocks.items():
            if isinstance(block, AggregateBlock):
                settled[number] = block.settle(position)
        if settled:
            yield from self._produce(max(self._layout), {}, settled)

    def _produce(
        self,
        number: int,
        runs: Mapping[int, Run],
        settled: Mapping[int, Iterable[Run]] | None = None,
    ) -> Iterator[Run]:
        """The runs that a block makes, one after another."""
        instruction, block = self._layout[number], self.blocks.get(number)
        if isinstance(instruction, ScanStream):
            if settled is None:
                yield runs[number]
        elif isinstance(block, JoinBlock) and isinstance(instruction, JoinStreams):
            if settled is None:
                left, right = instruction.inputs
                yield from block.process((runs[left], runs[right]))
            else:
                yield from settled[number]
        elif isinstance(block, UnionBlock) and isinstance(instruction, UnionRows):
            made = [list(self._produce(i, runs, settled)) for i in instruction.inputs]
            nothing = empty_run(self.schema)
            yield block.process([concatenate(part) if part else nothing for part in made])
        elif isinstance(block, AggregateBlock) and isinstance(instruction, AggregateRows):
            for run in self._produce(instruction.input, runs, settled):
                yield from block.process(run)
            if settled is not None:
                yield from settled.get(number, ())
        elif isinstance(block, SelectBlock | OrderBlock | ProjectBlock):
            assert isinstance(instruction, SelectRows | OrderRows | ProjectColumns)
            for run in self._produce(instruction.input, runs, settled):
                yield block.process(run)

    def merge(
        self, parts: Sequence[PartialBatch], position: int, update: bool = False
    ) -> tuple[int, Iterator[Run]]:
        """Take tuples that were folded elsewhere; the program has one aggregate, of one stream.

        They are judged by what was promised before, and close windows at ``position``. Returns how
        many were late, and the rows: of windows that close, or for an ``update`` all that changed.
        """
        [block] = self.aggregates
        number = next(n for n, known in self.blocks.items() if known is block)
        late = sum(block.merge(part) for part in parts)
        highest = [part.highest for part in parts if part.highest is not None]
        if not highest:
            return late, iter(())
        runs: Iterable[Run] = block.advance(max(highest), position)
        if update:
            runs = chain(block.updated(parts, position), map(_without_rows, runs))
        return late, self._produce(max(self._layout), {}, {number: runs})

    def follow(self, part: PartialBatch, closings: Closings) -> Iterator[Run]:
        """As :meth:`process` of tuples in their order, folded elsewhere, that the one aggregate
        takes: see :func:`penstock.blocks.folded_run.takes`.
        """
        [number] = (n for n, block in self.blocks.items() if isinstance(block, AggregateBlock))
        runs = self.aggregates[0].follow(part, closings)
        return self._produce(max(self._layout), {}, {number: runs})

    def measures(self) -> dict[str, Any]:
        """What the blocks have counted, and the state of their windows."""
        joins = self.joins
        return {
            "expression_failures": self.failures,
            "comparisons": sum(join.comparisons for join in joins),
            "kernels": [join.kernels for join in joins],
            "matches": sum(join.matches for join in joins),
            "window_tuples": [len(side.rows) for join in joins for side in join.sides],
            "expired_tuples": [side.rows.first for join in joins for side in join.sides],
            "window_bytes": self.nbytes,
            **_aggregate_measures(self.aggregates),
            "cores": core_figures(joins),
            **({"latency": latencies([join.latency for join in joins])} if joins else {}),
        }

    def clear(self) -> None:
        """Let the blocks go, and with them the windows and the cores."""
        self.close()
        self.blocks.clear()

    def close(self) -> None:
        """Let the cores of the joins and aggregates go; the windows stay."""
        for join in self.joins:
            join.close()
        for aggregate in self.aggregates:
            aggregate.close()

    @property
    def schema(self) -> pa.Schema:
        return self.program.schema

    @property
    def holds_tuples(self) -> bool:
        """Whether a tuple that arrives may be kept: in the window of a join, or to be sorted."""
        return any(isinstance(block, JoinBlock | OrderBlock) for block in self.blocks.values())

    @property
    def nbytes(self) -> int:
        """The memory of all windows."""
        windows = sum(side.nbytes for join in self.joins for side in join.sides)
        rest = (b for b in self.blocks.values() if isinstance(b, AggregateBlock | OrderBlock))
        return windows + sum(block.nbytes for block in rest)


def _aggregate_measures(blocks: list[AggregateBlock]) -> dict[str, Any]:
    """Of each aggregate, how many groups, panes or window modules, and open windows it has."""
    found = [block.measures() for block in blocks]
    names = ("groups", "panes", "modules", "windows_open")
    return {name: [one[name] for one in found] for name in names}


def can_share(program: Program) -> bool:
    """Whether pipelines on several cores can share the work of a program, each row made once.

    One inner join can be shared, and what has no join at all. Outer, semi and anti joins need to
    know that no core has found a partner; a union of joins needs the order of its branches. The
    groups of an aggregate can be shared; without GROUP BY, after a join, and for ORDER BY one core
    has to see every tuple.
    """
    if any(isinstance(i, OrderRows) for i in program.instructions):
        return False
    if program.aggregates:
        alone = len(program.instructions) == len({type(i) for i in program.instructions})
        return alone and not program.joins and all(a.keys for a in program.aggregates)
    if not program.joins:
        return True
    alone = not any(isinstance(i, UnionRows) for i in program.instructions)
    return alone and [join.kind for join in program.joins] == ["inner"]


def _without_rows(run: Run) -> Run:
    inputs = tuple(batch.slice(0, 0) for batch in run.inputs)
    return replace(run, inputs=inputs, at=run.positions[:0])


def _part(run: Run, share: Share) -> Run:
    """One of as many neighbouring parts of a run as there are cores. Controls go to all."""
    start, stop = (len(run) * i // share.cores for i in (share.core, share.core + 1))
    inputs = tuple(batch.slice(start, stop - start) for batch in run.inputs)
    return replace(run, inputs=inputs, at=run.positions[start:stop])
