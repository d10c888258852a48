"""From the flow that a query is to have to the join block and the cores that run it."""

from __future__ import annotations

from dataclasses import replace

from penstock.blocks.aggregate import AggregateBlock
from penstock.blocks.join import JoinBlock
from penstock.blocks.meeting import Meeting
from penstock.flows.celljoin import celljoin
from penstock.flows.gathering import Stars
from penstock.flows.handshake import Handshake
from penstock.flows.low_latency_handshake import LowLatencyHandshake
from penstock.flows.shared import Crew
from penstock.flows.splitjoin import splitjoin
from penstock.flows.threads import Threads
from penstock.program.blocks import AggregateRows, JoinStreams
from penstock.program.flow_choice import Flow


def make_join(
    instruction: JoinStreams, streams: tuple[str, str], compile_predicates: bool, flow: Flow
) -> JoinBlock:
    """A join block whose work the cores of the flow share."""
    crew = Crew(flow.cores) if flow.name == "shared" and flow.cores > 1 else None
    meeting = meeting_of(flow, instruction.kind)
    return JoinBlock(instruction, streams, compile_predicates, crew=crew, meeting=meeting)


def make_aggregate(instruction: AggregateRows, stream: str, flow: Flow | None) -> AggregateBlock:
    """An aggregate, whose tuples the threads of a flow that is shared divide among them."""
    crew = None
    if flow is not None and flow.name == "shared" and flow.cores > 1:
        crew = Crew(flow.cores)
    return AggregateBlock(instruction, stream, crew)


def meeting_of(flow: Flow, kind: str) -> Meeting | None:
    """The cores of a flow for joins of a kind."""
    if kind != "inner":
        # Whether a tuple has found nobody is known once all of its pairs have come, in order.
        flow = replace(flow, order="outer", precision=1)
    return make_meeting(flow)


def make_meeting(flow: Flow) -> Meeting | None:
    """The cores of a flow, on threads; None where the join block does the work itself."""
    stars = Stars(flow.order, flow.precision)
    if flow.name == "splitjoin":
        return splitjoin(flow.cores, flow.branching, stars, Threads)
    if flow.name == "celljoin":
        return celljoin(flow.cores, stars, Threads)
    if flow.name == "handshake":
        return Handshake(flow.cores, Threads)
    if flow.name == "low-latency-handshake":
        return LowLatencyHandshake(flow.cores, Threads)
    return None
