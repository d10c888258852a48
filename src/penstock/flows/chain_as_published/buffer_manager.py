"""Buffer Manager-R and Buffer Manager-S, and the Bypass Unit (Najafi 2019 §4.1.3).

Each has two controllers that know nothing of each other: one for what comes in, and one for what
goes out on the other side of the block.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.flows.chain_as_published.controller import Controller, Transitions
from penstock.flows.chain_as_published.instructions import Instruction
from penstock.flows.chain_as_published.window_buffer import WindowBuffer
from penstock.flows.sub_window import Group

IDLE = "idle"
GRANTED, RECEIVING = "granted", "receiving"
REQUESTING, TRANSMITTING = "requesting", "transmitting"
RECEPTION_CONTROL: Transitions = {
    IDLE: (GRANTED, RECEIVING),  # without a grant where the stream enters the chain
    GRANTED: (RECEIVING, IDLE),  # idle: what has come is an instruction that passes by
    RECEIVING: (IDLE,),
}
TRANSMISSION_CONTROL: Transitions = {
    IDLE: (REQUESTING, TRANSMITTING),  # without a request where the stream leaves the chain
    REQUESTING: (TRANSMITTING, IDLE),  # idle: the Bypass Unit has been served instead
    TRANSMITTING: (IDLE,),
}
WRITING, READING = "writing", "reading"
WRITE_CONTROL: Transitions = {IDLE: (WRITING,), WRITING: (IDLE,)}
READ_CONTROL: Transitions = {
    IDLE: (REQUESTING, READING),
    REQUESTING: (READING,),
    READING: (IDLE,),
}
BYPASS_ROOM = 4
"""Instructions that wait in a Bypass Unit, as in the block of Table 4.5.2."""


@dataclass
class BufferManager:
    """Moves the tuples of one stream into its window buffer and out of it."""

    side: int
    window: WindowBuffer | None = None
    reception: Controller = field(default_factory=lambda: Controller(RECEPTION_CONTROL))
    transmission: Controller = field(default_factory=lambda: Controller(TRANSMISSION_CONTROL))

    @property
    def has_room(self) -> bool:
        """Whether a run can be received: the buffer has let go all that was too much."""
        return not self.has_surplus

    @property
    def has_surplus(self) -> bool:
        """Whether the buffer is full, and tuples have to go on."""
        return self.window is not None and self.window.surplus > 0

    def receive(self, run: Group) -> WindowBuffer:
        """Store a run."""
        assert self.window is not None, "the block has not been programmed"
        self.reception.enter(RECEIVING)
        self.window.push(run)
        self.reception.enter(IDLE)
        return self.window

    def transmit(self) -> Group:
        """Let go what the buffer has no room for."""
        assert self.window is not None, "the block has not been programmed"
        self.transmission.enter(TRANSMITTING)
        run = self.window.pop()
        self.transmission.enter(IDLE)
        return run


@dataclass
class BypassUnit:
    """Relays instructions for blocks further on, past everything else in this one."""

    buffer: list[Instruction] = field(default_factory=list)
    write: Controller = field(default_factory=lambda: Controller(WRITE_CONTROL))
    read: Controller = field(default_factory=lambda: Controller(READ_CONTROL))

    @property
    def has_room(self) -> bool:
        """Whether another instruction can be written."""
        return len(self.buffer) < BYPASS_ROOM

    def put(self, instruction: Instruction) -> None:
        """Write an instruction into the buffer."""
        self.write.enter(WRITING)
        self.buffer.append(instruction)
        self.write.enter(IDLE)

    def get(self) -> Instruction:
        """Read the instruction that came first."""
        self.read.enter(READING)
        instruction = self.buffer.pop(0)
        self.read.enter(IDLE)
        return instruction
