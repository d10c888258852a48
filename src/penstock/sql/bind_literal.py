"""Literals: what was written, as a constant with a type."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
from sqlglot import exp

from penstock.sql.arrow_types import BOOL, DATE, INTERVAL, NULL, STRING
from penstock.sql.dialect import span
from penstock.sql.expressions import Literal
from penstock.sql.literals import (
    MONTHS,
    UNIT_SECONDS,
    number,
    read_time,
    seconds,
    singular,
    timestamp,
)
from penstock.sql.scope import Scope


def bind_literal(node: exp.Expr, scope: Scope, negative: bool = False) -> Literal:
    if node.args.get("is_string"):
        return Literal(str(node.this), STRING)
    literal = number(str(node.this), negative)
    if literal is None:
        raise scope.fail(
            span(node), "no type has this number", "Write it with at most 38 digits, or as 1e40."
        )
    return literal


def bind_hex(node: exp.Expr, scope: Scope) -> Literal:
    digits = str(node.this)
    if len(digits) % 2:
        raise scope.fail(
            span(node), "half a byte at the end", "Write two digits for each byte: X'0F'."
        )
    return Literal(bytes.fromhex(digits), pa.binary())


def bind_typed_literal(node: exp.Expr, scope: Scope) -> Literal:
    text = str(node.expression.this)
    if node.this == "date":
        days = read_time(text, DATE)
        if days is not None:
            return Literal(days, DATE)
        raise scope.fail(span(node), f"'{text}' is not a date", "Write it as DATE '2024-01-31'.")
    literal = timestamp(text)
    if literal is None:
        raise scope.fail(
            span(node),
            f"'{text}' is not a timestamp",
            "Write it as TIMESTAMP '2024-01-31 12:00:00.5', with a zone as in '...+02:00'.",
        )
    return literal


def bind_interval(node: exp.Expr, scope: Scope) -> Literal:
    unit = singular(node.args["unit"].name)
    if unit in MONTHS:
        raise scope.fail(
            span(node),
            f"an interval in {unit.lower()}s has no length of its own",
            "Add it to a date or timestamp directly, or write it in DAYS.",
        )
    micros = interval_seconds(node, scope) * 10**6
    if micros.denominator != 1 or abs(micros) >= 2**63:
        raise scope.fail(
            span(node),
            "intervals are whole microseconds",
            "Write INTERVAL n MICROSECONDS with a whole n.",
        )
    return Literal(int(micros), INTERVAL)


def interval_seconds(node: exp.Expr, scope: Scope) -> Fraction:
    """The length of an INTERVAL literal whose unit has a fixed length."""
    amount, unit = str(node.this.this), node.args["unit"].name
    if singular(unit) not in UNIT_SECONDS:
        raise scope.fail(
            span(node), f"unknown unit '{unit}'", "Write SECONDS, MINUTES, HOURS, DAYS or WEEKS."
        )
    length = seconds(amount, unit)
    if length is None:
        raise scope.fail(
            span(node), f"'{amount}' is not a number", "Write for instance INTERVAL '10' MINUTES."
        )
    return length


def bind_null(node: exp.Expr, scope: Scope) -> Literal:
    return Literal(None, NULL)


def bind_boolean(node: exp.Expr, scope: Scope) -> Literal:
    return Literal(bool(node.this), BOOL)
