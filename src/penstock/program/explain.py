"""EXPLAIN: what was asked, what it became, and why."""

from __future__ import annotations

from penstock.program.blocks import Program
from penstock.sql.expressions import TRUE
from penstock.sql.plan import Aggregate, Join, Plan, Scan
from penstock.streams.windows import as_written


def explain(plan: Plan, program: Program) -> str:
    """The plan as bound, the program as rewritten, and the kernel of each join and aggregate."""
    lines = ["plan"]
    if plan.sort:
        lines.append(f"  sort by {', '.join(map(str, plan.sort))}")
    if plan.limit is not None:
        lines.append(f"  limit {plan.limit}")
    for select in plan.selects:
        columns = ", ".join(f"{c.expression} AS {c.name}" for c in select.columns)
        lines.append(f"  project {columns}")
        if select.where != TRUE:
            word = "having" if isinstance(select.source, Aggregate) else "where"
            lines.append(f"  {word} {select.where}")
        lines.extend(f"  {line}" for line in _source(select.source))
    lines.append("program")
    for instruction in program.instructions:
        lines.extend(f"  {line}" for line in str(instruction).splitlines())
    lines += [f"kernel {join.kernel}: {join.reason}" for join in program.joins]
    lines += [f"kernel {block.kernel}: {block.reason}" for block in program.aggregates]
    lines.append(f"order {program.order}")
    return "\n".join(lines)


def _source(source: Scan | Join | Aggregate) -> list[str]:
    if isinstance(source, Aggregate):
        return _aggregate(source) + _source(source.source)
    if isinstance(source, Join):
        return [f"{source.kind} join on {source.on}", _scan(source.left), _scan(source.right)]
    return [_scan(source)]


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
