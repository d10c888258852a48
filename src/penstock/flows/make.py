"""From the flow that a query is to have to the cores that run it."""

from __future__ import annotations

from penstock.blocks.meeting import Meeting
from penstock.flows.gathering import Stars
from penstock.flows.splitjoin import SplitJoin
from penstock.flows.threads import Threads
from penstock.program.flow_choice import Flow


def make_meeting(flow: Flow) -> Meeting | None:
    """The cores of a flow, on threads; None where the join block does the work itself."""
    if flow.name == "splitjoin":
        return SplitJoin(flow.cores, flow.branching, Stars(flow.order, flow.precision), Threads)
    return None
