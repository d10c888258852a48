"""From SQL to a program: parse, bind to the streams there are, compile. For drivers alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from penstock.errors import InputError, PenstockError
from penstock.program.compile.compiler import compile_plan
from penstock.program.isa.block_instructions import Program
from penstock.program.isa.flow import ANY_FLOW, FlowChoice
from penstock.sql.bind.catalog import Catalog
from penstock.sql.bind.query import bind
from penstock.sql.parse.parser import parse_query
from penstock.sql.plan import ORDERS, Plan
from penstock.streams.schema import Stream


@dataclass(frozen=True)
class SqlCompiler:
    """Makes programs of SQL.

    ``windows_required`` is as in :class:`penstock.sql.bind.catalog.Catalog`; ``order_column`` tells
    the time of a stream for which a query names none.
    """

    windows_required: bool = True
    order_column: str | None = None

    def plan(
        self,
        text: str,
        streams: Iterable[Stream],
        order: str | None = None,
        flow: FlowChoice = ANY_FLOW,
    ) -> Plan:
        """The plan of a query; ``order`` and a precision override what its text says."""
        plan = bind(parse_query(text), self.catalog(streams), order_column=self.order_column)
        if order is not None:
            if order not in ORDERS:
                raise InputError(f"unknown order {order!r}", "Write none, outer or inner.")
            plan = replace(plan, order=order)
        return plan if flow.precision is None else replace(plan, precision=flow.precision)

    def program(
        self,
        text: str,
        streams: Iterable[Stream],
        order: str | None = None,
        kernel: str | None = None,
        flow: FlowChoice = ANY_FLOW,
    ) -> Program:
        """The program of a query, with the kernel and the flow that are asked for."""
        return compile_plan(self.plan(text, streams, order, flow), kernel).placed(flow)

    def planned(
        self,
        query: Program | str,
        streams: Iterable[Stream],
        order: str | None,
        kernel: str | None,
        flow: FlowChoice,
    ) -> tuple[Plan | None, Program]:
        """The plan and the program of a query.

        Of a query that is a program, the plan is what its text says, if that is the same query.
        """
        if not isinstance(query, Program):
            plan = self.plan(query, streams, order, flow)
            return plan, compile_plan(plan, kernel).placed(flow)
        query = query.placed(flow.over(query.flow))
        try:
            found = self.plan(query.text, streams, query.order, query.flow)
            same = compile_plan(found, kernel).digest == query.digest
        except PenstockError:
            return None, query
        return (found if same else None), query

    def catalog(self, streams: Iterable[Stream]) -> Catalog:
        """The streams as a query can name them."""
        return Catalog(streams, self.windows_required)


def check_program(query: Program | str, kernel: str | None) -> None:
    """Refuse a kernel for a program, which has its kernels."""
    if isinstance(query, Program) and kernel is not None:
        raise InputError(
            f"the kernel {kernel!r} is asked for, and a program has its kernels",
            "Leave the kernel out, or give the SQL instead of the program.",
        )
