"""Binds expressions: syntax to typed expressions with explicit conversions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction

import pyarrow as pa
from pyarrow import types as arrow
from sqlglot import exp

from penstock.errors import InputError, SqlError
from penstock.sql.arrow_types import BOOL, DATE, INTERVAL, NULL, STRING
from penstock.sql.bind import operators
from penstock.sql.bind.aggregate_functions import AGGREGATES, is_aggregate
from penstock.sql.bind.coercion import Argument, TypeProblem, unify, unify_compared
from penstock.sql.bind.functions import FUNCTIONS, TRUNCATIONS, call
from penstock.sql.bind.scope import NO_AGGREGATE, Scope
from penstock.sql.expressions import Call, Expression, Literal, chain
from penstock.sql.parse.dialect import TypedLiteral, span
from penstock.sql.parse.foreign_functions import misspelt, substitute
from penstock.sql.parse.literals import (
    MONTHS,
    NUMBER,
    near_number,
    number,
    read_time,
    seconds,
    singular,
    timestamp,
    unit_remedy,
)
from penstock.streams.lead import UNIT_SECONDS
from penstock.streams.schema import parse_type

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
}
ARITHMETIC: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Add: ("add", "+"),
    exp.Sub: ("sub", "-"),
    exp.Mul: ("mul", "*"),
    exp.Div: ("div", "/"),
    exp.Mod: ("mod", "%"),
}
EXTREMES = {"MIN": "LEAST", "MAX": "GREATEST"}
"""The scalar functions that users confuse with aggregates."""

REMEDIES: dict[type[exp.Expr], str] = {
    exp.Concat: "Write || between them.",
    exp.NullSafeEQ: "Write a = b OR (a IS NULL AND b IS NULL).",
    exp.NullSafeNEQ: "Write a <> b OR a IS NULL OR b IS NULL, for the NULLs there can be.",
    exp.AtTimeZone: "Write CAST(t AS timestamp(6, 'zone')).",
    exp.Distinct: "Leave DISTINCT out.",
    exp.Tuple: "Compare the columns one by one, with AND between.",
    exp.Dot: "Write column or stream.column.",
}


def bind_expression(node: exp.Expr, scope: Scope) -> Expression:
    """The typed expression of a node; an error if it has no type."""
    bound = bind(node, scope)
    if bound.type == NULL:
        raise scope.fail(span(node), "NULL has no type here", "Write CAST(NULL AS type).")
    return bound


def bind_condition(node: exp.Expr, scope: Scope) -> Expression:
    """Bind an expression that must be boolean."""
    return bind_operation(node, (node,), scope, lambda args: operators.boolean(args[0]))


def bind(node: exp.Expr, scope: Scope) -> Expression:
    """Bind a node, which may be an untyped NULL that its neighbours give a type."""
    kind = type(node)
    if kind in COMPARISONS:
        op = COMPARISONS[kind]
        return bind_operation(
            node, (node.this, node.expression), scope, lambda args: operators.compare(op, *args)
        )
    if kind in ARITHMETIC:
        return bind_arithmetic(node, scope)
    binder = BINDERS.get(kind)
    if binder is None:
        remedy = REMEDIES.get(kind, "Write it with the operators and functions there are.")
        raise scope.fail(span(node), f"'{scope.text(node)}' is not supported", remedy)
    return binder(node, scope)


def bind_operation(
    node: exp.Expr,
    children: Sequence[exp.Expr],
    scope: Scope,
    build: Callable[[Sequence[Argument]], Expression],
) -> Expression:
    """Bind the children and build an operation; errors of types point at a piece of the text."""
    return build_operation(node, children, arguments(children, scope), scope, build)


def arguments(children: Sequence[exp.Expr], scope: Scope) -> list[Argument]:
    """The bound children."""
    return [Argument(bind(child, scope), scope.text(child)) for child in children]


def build_operation(
    node: exp.Expr,
    children: Sequence[exp.Expr],
    args: Sequence[Argument],
    scope: Scope,
    build: Callable[[Sequence[Argument]], Expression],
) -> Expression:
    """Build an operation from bound children, as :func:`bind_operation` does."""
    try:
        return build(args)
    except TypeProblem as problem:
        where = node if problem.argument is None else children[problem.argument]
        raise scope.fail(span(where), problem.what, problem.remedy) from None


def bind_paren(node: exp.Expr, scope: Scope) -> Expression:
    return bind(node.this, scope)


def bind_column(node: exp.Expr, scope: Scope) -> Expression:
    if isinstance(node, exp.Star) or isinstance(node.this, exp.Star):
        raise scope.fail(
            span(node), "* stands for several columns", "Write the name of one column."
        )
    assert isinstance(node, exp.Column)
    return scope.resolve(node)


def bind_arithmetic(node: exp.Expr, scope: Scope) -> Expression:
    op, symbol = ARITHMETIC[type(node)]
    children = (node.this, node.expression)
    place = interval_place(op, children)
    if place is not None and singular(children[place].unnest().args["unit"].name) in MONTHS:
        return bind_month_shift(node, op, children[1 - place], children[place].unnest(), scope)

    def build(args: Sequence[Argument]) -> Expression:
        if place is not None and arrow.is_date(args[1 - place].type):
            days = whole_days(children[place].unnest(), scope)
            if days is not None:
                return operators.shift_days(args[1 - place], days if op == "add" else -days)
        return operators.arithmetic(op, symbol, *args)

    return bind_operation(node, children, scope, build)


def interval_place(op: str, children: Sequence[exp.Expr]) -> int | None:
    """The index of the operand of ``+`` or ``-`` that is an INTERVAL literal, or None."""
    places = {"add": (1, 0), "sub": (1,)}.get(op, ())
    return next((p for p in places if isinstance(children[p].unnest(), exp.Interval)), None)


def bind_month_shift(
    node: exp.Expr, op: str, time: exp.Expr, interval: exp.Expr, scope: Scope
) -> Expression:
    """Bind ``t ± INTERVAL n MONTHS`` or ``YEARS``."""
    text = str(interval.this.this)
    months = 2**31
    if re.fullmatch("[+-]?[0-9]{1,10}", text):
        months = int(text) * MONTHS[singular(interval.args["unit"].name)]
    if abs(months) >= 2**31:
        raise scope.fail(
            span(interval), f"'{text}' is not a whole number", "Write whole months or years."
        )
    shift = months if op == "add" else -months
    return bind_operation(node, (time,), scope, lambda args: operators.shift_months(args[0], shift))


def whole_days(interval: exp.Expr, scope: Scope) -> int | None:
    """The number of days of an INTERVAL in days or weeks; None for others."""
    if singular(interval.args["unit"].name) not in ("DAY", "WEEK"):
        return None
    days = interval_seconds(interval, scope) / 86400
    return int(days) if days.denominator == 1 and abs(days) < 2**31 else None


def bind_negation(node: exp.Expr, scope: Scope) -> Expression:
    if isinstance(node.this, exp.Literal) and not node.this.args.get("is_string"):
        return bind_literal(node.this, scope, negative=True)
    return bind_operation(node, (node.this,), scope, lambda args: operators.negate(args[0]))


def bind_connector(node: exp.Expr, scope: Scope) -> Expression:
    op = "and" if isinstance(node, exp.And) else "or"
    terms: list[exp.Expr] = []
    while type(node) in (exp.And, exp.Or) and isinstance(node, exp.And) == (op == "and"):
        terms.append(node.expression)
        node = node.this
    return chain(op, tuple(bind_condition(term, scope) for term in (node, *reversed(terms))))


def bind_not(node: exp.Expr, scope: Scope) -> Expression:
    return Call("not", (bind_condition(node.this, scope),), BOOL)


def negated_if(node: exp.Expr, bound: Expression) -> Expression:
    """NOT around the expression if sqlglot has marked the node as negated."""
    return Call("not", (bound,), BOOL) if node.args.get("negate") else bound


def bind_is(node: exp.Expr, scope: Scope) -> Expression:
    if not isinstance(node.expression, exp.Null):
        raise scope.fail(
            span(node),
            f"'{scope.text(node)}' is not supported",
            "Write x IS NULL, x IS NOT NULL, or COALESCE(x, FALSE) for x IS TRUE.",
        )
    arg = bind(node.this, scope)
    arg = Literal(None, BOOL) if arg.type == NULL else arg
    return negated_if(node, Call("is_null", (arg,), BOOL))


def bind_between(node: exp.Expr, scope: Scope) -> Expression:
    def build(args: Sequence[Argument]) -> Expression:
        value, low, high = args
        bounds = (operators.compare("ge", value, low), operators.compare("le", value, high))
        return Call("and", bounds, BOOL)

    return bind_operation(node, (node.this, node.args["low"], node.args["high"]), scope, build)


def bind_in(node: exp.Expr, scope: Scope) -> Expression:
    return bind_operation(
        node,
        (node.this, *node.expressions),
        scope,
        lambda args: Call("in", unify_compared(args), BOOL),
    )


def bind_like(node: exp.Expr, scope: Scope) -> Expression:
    escape = Literal("\\", STRING)
    like = node
    if isinstance(node, exp.Escape):
        like, given = node.this, bind(node.expression, scope)
        if not (
            isinstance(given, Literal) and isinstance(given.value, str) and len(given.value) == 1
        ):
            raise scope.fail(
                span(node.expression), "ESCAPE needs one character", "Write for instance '!'."
            )
        escape = given

    def build(args: Sequence[Argument]) -> Expression:
        value, pattern = operators.string(args[0], 0), operators.string(args[1], 1)
        return Call("like", (value, pattern, escape), BOOL)

    return negated_if(like, bind_operation(node, (like.this, like.expression), scope, build))


def bind_case(node: exp.Expr, scope: Scope) -> Expression:
    branches, default = node.args["ifs"], node.args.get("default")
    conditions = bind_conditions(node.args.get("this"), [branch.this for branch in branches], scope)
    values = [branch.args["true"] for branch in branches]
    results = [*values, default] if default is not None else values

    def build(args: Sequence[Argument]) -> Expression:
        if default is None:
            args = [*args, Argument(Literal(None, NULL), "NULL")]
        unified = unify(args, "combine", "with")
        operators.null_free(unified[0], "Write CAST(NULL AS type) for one of them.")
        pairs = zip(conditions, unified[:-1], strict=True)
        flat = tuple(part for pair in pairs for part in pair)
        return Call("case", (*flat, unified[-1]), unified[0].type)

    return bind_operation(node, results, scope, build)


def bind_conditions(
    operand: exp.Expr | None, tests: Sequence[exp.Expr], scope: Scope
) -> list[Expression]:
    """Bind the conditions of each WHEN, or its comparisons with the operand."""
    if operand is None:
        return [bind_condition(test, scope) for test in tests]
    (value,) = arguments((operand,), scope)
    return [
        build_operation(
            test,
            (operand, test),
            (value, *arguments((test,), scope)),
            scope,
            lambda args: operators.compare("eq", *args),
        )
        for test in tests
    ]


def bind_cast(node: exp.Expr, scope: Scope) -> Expression:
    target = node.args["to"]
    try:
        kind = parse_type(target.name)
    except InputError as error:
        raise scope.fail(span(target), error.what, error.remedy) from None
    return bind_operation(node, (node.this,), scope, lambda args: operators.cast(args[0], kind))


def bind_concat(node: exp.Expr, scope: Scope) -> Expression:
    parts = [node.this, node.expression]
    while isinstance(parts[0], exp.DPipe):
        parts[:1] = [parts[0].this, parts[0].expression]
    return bind_operation(node, parts, scope, lambda args: call("CONCAT", args))


def bind_integer_division(node: exp.Expr, scope: Scope) -> Expression:
    return bind_operation(
        node,
        (node.this, node.expression),
        scope,
        lambda args: operators.integer_division(*args),
    )


def bind_function(node: exp.Expr, scope: Scope) -> Expression:
    if is_aggregate(node):
        return bind_aggregate(node, scope)
    name = node.name
    if name.upper() not in FUNCTIONS:
        raise unknown_function(node, scope)
    if name.upper() == "DATE_TRUNC":
        check_truncation(node, scope)
    return bind_operation(node, node.expressions, scope, lambda args: call(name.upper(), args))


def check_truncation(node: exp.Expr, scope: Scope) -> None:
    """Refuse a unit without quotes, which would be a column."""
    unit = node.expressions[0] if node.expressions else None
    if isinstance(unit, exp.Column) and not unit.table and unit.name.lower() in TRUNCATIONS:
        rest = ", ".join(scope.text(argument) for argument in node.expressions[1:]) or "t"
        raise scope.fail(
            span(unit),
            f"the unit {unit.name} is no text",
            f"Write DATE_TRUNC('{unit.name.lower()}', {rest}).",
        )


def bind_filter(node: exp.Expr, scope: Scope) -> Expression:
    if is_aggregate(node.this):
        return bind_aggregate(node, scope)
    raise scope.fail(
        span(node),
        f"FILTER after '{scope.text(node.this)}', which is no aggregate",
        f"Leave FILTER out; the aggregates are {', '.join(sorted(AGGREGATES))}.",
    )


def bind_aggregate(node: exp.Expr, scope: Scope) -> Expression:
    """Bind an aggregate, where one is allowed."""
    if scope.aggregate is not None:
        return scope.aggregate(node)
    function = node.this if isinstance(node, exp.Filter) else node
    raise scope.fail(
        span(node),
        f"the aggregate {function.name.upper()} {scope.clause}",
        NO_AGGREGATE[scope.clause],
    )


def check_functions(values: Sequence[exp.Expr], scope: Scope, stream: str) -> None:
    """Refuse unknown functions before any other error in the expressions."""
    for value in values:
        for node in value.find_all(exp.Anonymous):
            if not is_aggregate(node) and node.name.upper() not in FUNCTIONS:
                raise unknown_function(node, scope, stream)
            if node.name.upper() in EXTREMES and len(node.expressions) > 1:
                function = EXTREMES[node.name.upper()]
                arguments = ", ".join(scope.text(argument) for argument in node.expressions)
                raise scope.fail(
                    span(node),
                    f"the aggregate {node.name.upper()} takes one argument, not "
                    f"{len(node.expressions)}",
                    f"Write {function}({arguments}) for one of several values of a tuple.",
                )


def unknown_function(node: exp.Expr, scope: Scope, stream: str | None = None) -> SqlError:
    """The error for an unknown function; ``stream`` is the stream that the query reads."""
    start, _ = span(node)
    at = (start, start + len(node.name))
    instead = substitute(node.name)
    if instead is not None:
        read = stream or (scope.inputs[0].stream.name if scope.inputs else "R")
        remedy = instead.remedy([scope.text(argument) for argument in node.expressions], read)
        return scope.fail(at, f"the function {node.name.upper()} is not supported", remedy)
    near = misspelt(node.name.upper(), [*FUNCTIONS, *AGGREGATES])
    remedy = (
        f"Did you mean {' or '.join(near)}?"
        if near
        else f"The functions are {', '.join(sorted(FUNCTIONS))}; the aggregates are "
        f"{', '.join(sorted(AGGREGATES))}."
    )
    return scope.fail(at, f"unknown function '{node.name}'", remedy)


def bind_literal(node: exp.Expr, scope: Scope, negative: bool = False) -> Literal:
    if node.args.get("is_string"):
        return Literal(str(node.this), STRING)
    if NUMBER.fullmatch(str(node.this)) is None:
        raise scope.fail(span(node), f"'{node.this}' is no number", "Write it as 10, 1.5 or 1.5e3.")
    literal = number(str(node.this), negative)
    if literal is None:
        raise scope.fail(
            span(node), "no type has this number", "Write it with at most 38 digits, or as 1e40."
        )
    return literal


def bind_hex(node: exp.Expr, scope: Scope) -> Literal:
    digits = str(node.this)
    if not re.fullmatch("[0-9A-Fa-f]*", digits):
        raise scope.fail(
            span(node), "not all of these are digits of bytes", "Write X'00FF' for bytes."
        )
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
    """The length in seconds of an INTERVAL literal whose unit has a fixed length."""
    amount, unit = str(node.this.this), node.args["unit"].name
    if singular(unit) not in UNIT_SECONDS:
        raise scope.fail(
            span(node), f"unknown unit '{unit}'", unit_remedy(unit, (*UNIT_SECONDS, *MONTHS))
        )
    if NUMBER.fullmatch(amount) is None:
        raise scope.fail(
            span(node), f"'{amount}' is not a number", "Write for instance INTERVAL '10' MINUTES."
        )
    near = near_number(amount)
    length = None if near is None else seconds(near, unit)
    if length is None:
        raise scope.fail(
            span(node),
            "no interval has this length",
            "Write between 1 microsecond and 106751991 days.",
        )
    return length


def bind_null(node: exp.Expr, scope: Scope) -> Literal:
    return Literal(None, NULL)


def bind_boolean(node: exp.Expr, scope: Scope) -> Literal:
    return Literal(bool(node.this), BOOL)


BINDERS: dict[type[exp.Expr], Callable[[exp.Expr, Scope], Expression]] = {
    exp.Paren: bind_paren,
    exp.Column: bind_column,
    exp.Star: bind_column,
    exp.Literal: bind_literal,
    exp.HexString: bind_hex,
    TypedLiteral: bind_typed_literal,
    exp.Interval: bind_interval,
    exp.Null: bind_null,
    exp.Boolean: bind_boolean,
    exp.Neg: bind_negation,
    exp.And: bind_connector,
    exp.Or: bind_connector,
    exp.Not: bind_not,
    exp.Is: bind_is,
    exp.Between: bind_between,
    exp.In: bind_in,
    exp.Like: bind_like,
    exp.Escape: bind_like,
    exp.Case: bind_case,
    exp.Cast: bind_cast,
    exp.DPipe: bind_concat,
    exp.IntDiv: bind_integer_division,
    exp.Anonymous: bind_function,
    exp.Filter: bind_filter,
}
