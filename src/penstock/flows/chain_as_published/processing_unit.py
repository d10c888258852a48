"""The Processing Unit of an OP-Block (Najafi 2019 §4.1.3, Fig. 4.1.5).

It is activated by a new run of tuples, and executes every operator of the Query Buffer on it. Its
two controllers have the states of the figure; a state is a phase of a step over the run, and not
over a tuple. An operator may need several iterations, each for a piece of what it finds: addresses
are updated after each of them, and then come the rest of the tuples, the next operator, or the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.flows.chain_as_published.controller import Controller, Transitions

EXE_IDLE = "Exe-Idle"
OPR_ADDR = "Opr-Addr"
OPR_READ = "Opr-Read"
OPR_SEC_READ = "Opr-Sec-Read"
TUPLES_ADDR = "Tuples-Addr"
EXECUTION = "Execution"
UPDATE_ADDR_PTRS = "Update-Addr-Ptrs"
EXECUTION_CONTROL: Transitions = {
    EXE_IDLE: (OPR_ADDR,),
    OPR_ADDR: (OPR_READ,),
    OPR_READ: (OPR_SEC_READ, TUPLES_ADDR),
    OPR_SEC_READ: (TUPLES_ADDR,),
    TUPLES_ADDR: (EXECUTION,),
    EXECUTION: (UPDATE_ADDR_PTRS,),
    UPDATE_ADDR_PTRS: (TUPLES_ADDR, OPR_READ, EXE_IDLE),
}
EXE_WAIT = "Exe-Wait"
FIRST_CHUNK = "Trans First-Chunk"
SECOND_CHUNK = "Trans Second-Chunk"
TRANSMISSION_CONTROL: Transitions = {
    EXE_WAIT: (FIRST_CHUNK,),
    FIRST_CHUNK: (SECOND_CHUNK, EXE_WAIT),
    SECOND_CHUNK: (EXE_WAIT,),
}


class Operator(Protocol):
    """An instruction in the Query Buffer."""

    @property
    def chunks(self) -> int:
        """How many chunks the instruction has; the third is read in a state of its own."""

    @property
    def result_chunks(self) -> int:
        """How many tuples a result is put together from: two for a join."""

    def execute(self, run: Any, opposite: Any) -> Iterator[Any]:
        """What comes of a new run and the opposite window, in pieces; none if nothing does."""


@dataclass
class ProcessingUnit:
    """The execution control unit and the transmission control unit."""

    execution: Controller = field(default_factory=lambda: Controller(EXECUTION_CONTROL))
    transmission: Controller = field(default_factory=lambda: Controller(TRANSMISSION_CONTROL))

    def process(self, operators: Sequence[Operator], run: Any, opposite: Any) -> Iterator[Any]:
        """Execute all operators on a new run; gives their results."""
        if not operators:
            return
        self.execution.enter(OPR_ADDR)
        for operator in operators:
            self.execution.enter(OPR_READ)
            if operator.chunks > 2:
                self.execution.enter(OPR_SEC_READ)
            yield from self._execute(operator, run, opposite)
        self.execution.enter(EXE_IDLE)

    def _execute(self, operator: Operator, run: Any, opposite: Any) -> Iterator[Any]:
        results, is_over = operator.execute(run, opposite), False
        while not is_over:
            self.execution.enter(TUPLES_ADDR)
            self.execution.enter(EXECUTION)
            result = next(results, None)
            is_over = result is None
            if not is_over:
                yield from self._transmit(operator, result)
            self.execution.enter(UPDATE_ADDR_PTRS)

    def _transmit(self, operator: Operator, result: Any) -> Iterator[Any]:
        """Give a piece of results; the two tuples of each are its first and its second chunk."""
        self.transmission.enter(FIRST_CHUNK)
        if operator.result_chunks > 1:
            self.transmission.enter(SECOND_CHUNK)
        yield result
        self.transmission.enter(EXE_WAIT)
