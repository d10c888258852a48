"""From the flow that a query is to have to the cores that run it."""

from __future__ import annotations

from penstock.blocks.meeting import Meeting
from penstock.flows.celljoin import celljoin
from penstock.flows.gathering import Stars
from penstock.flows.splitjoin import splitjoin
from penstock.flows.threads import Threads
from penstock.program.flow_choice import Flow


def make_meeting(flow: Flow) -> Meeting | None:
    """The cores of a flow, on threads; None where the join block does the work itself."""
    stars = Stars(flow.order, flow.precision)
    if flow.name == "splitjoin":
        return splitjoin(flow.cores, flow.branching, stars, Threads)
    if flow.name == "celljoin":
        return celljoin(flow.cores, stars, Threads)
    return None
