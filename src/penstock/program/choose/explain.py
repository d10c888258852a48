"""EXPLAIN: the plan, the program, the kernels and the flow of a query, with reasons."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.program.choose.flow import stash_size
from penstock.program.choose.probe_order import explain_orders
from penstock.program.isa.block_instructions import AggregateRows, JoinStreams, Program
from penstock.program.isa.codecs import canonical
from penstock.program.isa.encoding import encode
from penstock.program.isa.flow import Flow
from penstock.sql.expressions import TRUE
from penstock.sql.plan import Aggregate, Join, Plan, Scan
from penstock.streams.display import html_text
from penstock.streams.windows import as_written


class Explanation(str):
    """The text of EXPLAIN, which a console or a notebook shows line by line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_text(self)


@dataclass(frozen=True)
class ExplanationParts:
    """The parts of EXPLAIN: the plan if it is known, the program, the flow and the reasons.

    ``reasons`` has the lines about the flow, and about the distribution of the query.
    """

    plan: Plan | None
    program: Program
    flow: Flow
    reasons: tuple[str, ...]

    @property
    def text(self) -> Explanation:
        """All parts as text."""
        return Explanation("\n".join((explain(self.plan, self.program), *self.reasons)))

    def to_json(self) -> str:
        """All parts as one JSON object."""
        program = self.program
        chosen: list[JoinStreams | AggregateRows] = [*program.joins, *program.aggregates]
        return canonical(
            {
                "query": program.text,
                "digest": program.digest,
                "plan": None if self.plan is None else _plan(self.plan),
                "program": encode(program),
                "kernels": [
                    {"block": one.block, "kernel": one.kernel, "reason": one.reason}
                    for one in chosen
                ],
                "flow": self._flow(),
            }
        )

    def _flow(self) -> dict[str, object]:
        """The flow of a join of two streams, or the design of one of more; the other is null."""
        flow, most = self.flow, self.program.most_joined
        return {
            **vars(flow),
            "name": flow.name if most == 2 else None,
            "design": flow.design if most > 2 else None,
            "probe_order": flow.probe_order if most > 2 else None,
            "stash": stash_size(flow, self.program),
            "reasons": [line for reason in self.reasons for line in reason.splitlines()],
        }


def explain(plan: Plan | None, program: Program) -> str:
    """The plan as bound, the program as rewritten, and the kernel of each join and aggregate."""
    lines = [] if plan is None else ["plan", *(f"  {line}" for line in _plan(plan))]
    lines.append("program")
    for instruction in program.instructions:
        lines.extend(f"  {line}" for line in str(instruction).splitlines())
    lines += [f"kernel {join.kernel}: {join.reason}" for join in program.joins]
    lines += [f"kernel {block.kernel}: {block.reason}" for block in program.aggregates]
    lines += [line for join in program.joins for line in explain_orders(join, program.flow)]
    lines.append(f"order {program.order}")
    return "\n".join(lines)


def _plan(plan: Plan) -> list[str]:
    lines = []
    if plan.sort:
        lines.append(f"sort by {', '.join(map(str, plan.sort))}")
    if plan.limit is not None:
        lines.append(f"limit {plan.limit}")
    for select in plan.selects:
        columns = ", ".join(f"{c.expression} AS {c.name}" for c in select.columns)
        lines.append(f"project {columns}")
        if select.where != TRUE:
            word = "having" if isinstance(select.source, Aggregate) else "where"
            lines.append(f"{word} {select.where}")
        lines.extend(_source(select.source))
    return lines


def _source(source: Scan | Join | Aggregate) -> list[str]:
    if isinstance(source, Aggregate):
        return _aggregate(source) + _source(source.source)
    if isinstance(source, Join):
        return [*_join(source), *map(_scan, source.inputs)]
    return [_scan(source)]


def _join(join: Join) -> list[str]:
    """The last join of a tree comes first, as what is above comes first."""
    lines = [f"{join.kind} join on {join.on}"] if join.core > 1 else []
    for step, scan in zip(join.steps, join.inputs[join.core :], strict=True):
        lines.insert(0, f"{step.kind} join with {scan.alias} on {step.on}")
    return lines


def _aggregate(aggregate: Aggregate) -> list[str]:
    calls = ", ".join(map(str, aggregate.calls)) or "groups"
    window = f" {as_written(aggregate.window)}" if aggregate.window is not None else ""
    empty = ", empty windows too" if aggregate.emit_empty else ""
    lines = [f"aggregate {calls}{window}{empty}"]
    if aggregate.keys:
        lines.append(f"group by {', '.join(str(key.expression) for key in aggregate.keys)}")
    if aggregate.where != TRUE:
        lines.append(f"where {aggregate.where}")
    return lines


def _scan(scan: Scan) -> str:
    window = f" {as_written(scan.window)}" if scan.window is not None else ""
    return f"scan {scan.stream.name}{window} as {scan.alias}"
