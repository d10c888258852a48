"""Expressions: from what was written to typed expressions with every conversion spelled out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches

from pyarrow import types as arrow
from sqlglot import exp

from penstock.errors import InputError, SqlError
from penstock.sql import operators
from penstock.sql.aggregates import AGGREGATES, is_aggregate
from penstock.sql.arrow_types import BOOL, NULL, STRING
from penstock.sql.bind_literal import (
    bind_boolean,
    bind_hex,
    bind_interval,
    bind_literal,
    bind_null,
    bind_typed_literal,
    interval_seconds,
)
from penstock.sql.dialect import TypedLiteral, span
from penstock.sql.expressions import Call, Expression, Literal, chain
from penstock.sql.functions import FUNCTIONS, call
from penstock.sql.literals import MONTHS, singular
from penstock.sql.scope import NO_AGGREGATE, Scope
from penstock.sql.types import Argument, TypeProblem, unify, unify_compared
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
REMEDIES: dict[type[exp.Expr], str] = {
    exp.NullSafeEQ: "Write a = b OR (a IS NULL AND b IS NULL).",
    exp.NullSafeNEQ: "Write a <> b OR a IS NULL OR b IS NULL, for the NULLs there can be.",
    exp.AtTimeZone: "Write CAST(t AS timestamp(6, 'zone')).",
    exp.Distinct: "Leave DISTINCT out.",
    exp.Tuple: "Compare the columns one by one, with AND between.",
    exp.Dot: "Write column or stream.column.",
}


def bind_expression(node: exp.Expr, scope: Scope) -> Expression:
    """The typed expression that the node stands for. It has a type, or it is an error."""
    bound = bind(node, scope)
    if bound.type == NULL:
        raise scope.fail(span(node), "NULL has no type here", "Write CAST(NULL AS type).")
    return bound


def bind_condition(node: exp.Expr, scope: Scope) -> Expression:
    """An expression that must be boolean."""
    return checked(node, (node,), scope, lambda args: operators.boolean(args[0]))


def bind(node: exp.Expr, scope: Scope) -> Expression:
    """As :func:`bind_expression`, but a bare NULL is let through for its neighbours to type."""
    kind = type(node)
    if kind in COMPARISONS:
        op = COMPARISONS[kind]
        return checked(
            node, (node.this, node.expression), scope, lambda args: operators.compare(op, *args)
        )
    if kind in ARITHMETIC:
        return bind_arithmetic(node, scope)
    binder = BINDERS.get(kind)
    if binder is None:
        remedy = REMEDIES.get(kind, "Write it with the operators and functions there are.")
        raise scope.fail(span(node), f"'{scope.text(node)}' is not supported", remedy)
    return binder(node, scope)


def checked(
    node: exp.Expr,
    children: Sequence[exp.Expr],
    scope: Scope,
    build: Callable[[Sequence[Argument]], Expression],
) -> Expression:
    """Bind the children, build from them, and give a problem with types its place."""
    return applied(node, children, arguments(children, scope), scope, build)


def arguments(children: Sequence[exp.Expr], scope: Scope) -> list[Argument]:
    """The children, bound."""
    return [Argument(bind(child, scope), scope.text(child)) for child in children]


def applied(
    node: exp.Expr,
    children: Sequence[exp.Expr],
    args: Sequence[Argument],
    scope: Scope,
    build: Callable[[Sequence[Argument]], Expression],
) -> Expression:
    """As :func:`checked`, for children that have been bound."""
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

    return checked(node, children, scope, build)


def interval_place(op: str, children: Sequence[exp.Expr]) -> int | None:
    """Which operand of ``+`` or ``-`` is an INTERVAL literal, if one is."""
    places = {"add": (1, 0), "sub": (1,)}.get(op, ())
    return next((p for p in places if isinstance(children[p].unnest(), exp.Interval)), None)


def bind_month_shift(
    node: exp.Expr, op: str, time: exp.Expr, interval: exp.Expr, scope: Scope
) -> Expression:
    """``t ± INTERVAL n MONTHS`` or ``YEARS``."""
    text = str(interval.this.this)
    try:
        months = int(text) * MONTHS[singular(interval.args["unit"].name)]
    except ValueError:
        months = 2**31
    if abs(months) >= 2**31:
        raise scope.fail(
            span(interval), f"'{text}' is not a whole number", "Write whole months or years."
        )
    shift = months if op == "add" else -months
    return checked(node, (time,), scope, lambda args: operators.shift_months(args[0], shift))


def whole_days(interval: exp.Expr, scope: Scope) -> int | None:
    """How many days an INTERVAL is that is written in days or weeks; None for any other."""
    if singular(interval.args["unit"].name) not in ("DAY", "WEEK"):
        return None
    days = interval_seconds(interval, scope) / 86400
    return int(days) if days.denominator == 1 and abs(days) < 2**31 else None


def bind_negation(node: exp.Expr, scope: Scope) -> Expression:
    if isinstance(node.this, exp.Literal) and not node.this.args.get("is_string"):
        return bind_literal(node.this, scope, negative=True)
    return checked(node, (node.this,), scope, lambda args: operators.negate(args[0]))


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
    """NOT around it, where sqlglot keeps the NOT as a mark on the node."""
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

    return checked(node, (node.this, node.args["low"], node.args["high"]), scope, build)


def bind_in(node: exp.Expr, scope: Scope) -> Expression:
    return checked(
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

    return negated_if(like, checked(node, (like.this, like.expression), scope, build))


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

    return checked(node, results, scope, build)


def bind_conditions(
    operand: exp.Expr | None, tests: Sequence[exp.Expr], scope: Scope
) -> list[Expression]:
    """What follows each WHEN: conditions, or values that the operand is compared with."""
    if operand is None:
        return [bind_condition(test, scope) for test in tests]
    (value,) = arguments((operand,), scope)
    return [
        applied(
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
    return checked(node, (node.this,), scope, lambda args: operators.cast(args[0], kind))


def bind_concat(node: exp.Expr, scope: Scope) -> Expression:
    parts = [node.this, node.expression]
    while isinstance(parts[0], exp.DPipe):
        parts[:1] = [parts[0].this, parts[0].expression]
    return checked(node, parts, scope, lambda args: call("CONCAT", args))


def bind_integer_division(node: exp.Expr, scope: Scope) -> Expression:
    return checked(
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
    return checked(node, node.expressions, scope, lambda args: call(name.upper(), args))


def bind_filter(node: exp.Expr, scope: Scope) -> Expression:
    if is_aggregate(node.this):
        return bind_aggregate(node, scope)
    raise scope.fail(
        span(node),
        f"FILTER after '{scope.text(node.this)}', which is no aggregate",
        f"Leave FILTER out; the aggregates are {', '.join(sorted(AGGREGATES))}.",
    )


def bind_aggregate(node: exp.Expr, scope: Scope) -> Expression:
    """An aggregate, where one may stand."""
    if scope.aggregate is not None:
        return scope.aggregate(node)
    function = node.this if isinstance(node, exp.Filter) else node
    raise scope.fail(
        span(node),
        f"the aggregate {function.name.upper()} {scope.clause}",
        NO_AGGREGATE[scope.clause],
    )


def check_functions(values: Sequence[exp.Expr], scope: Scope) -> None:
    """Refuse functions that do not exist, before anything else is said of the expressions."""
    for value in values:
        for node in value.find_all(exp.Anonymous):
            if not is_aggregate(node) and node.name.upper() not in FUNCTIONS:
                raise unknown_function(node, scope)


def unknown_function(node: exp.Expr, scope: Scope) -> SqlError:
    """The error for a function that does not exist."""
    start, _ = span(node)
    near = get_close_matches(node.name.upper(), [*FUNCTIONS, *AGGREGATES], 3, 0.7)
    remedy = (
        f"Did you mean {' or '.join(near)}?"
        if near
        else f"The functions are {', '.join(sorted(FUNCTIONS))}; the aggregates are "
        f"{', '.join(sorted(AGGREGATES))}."
    )
    return scope.fail((start, start + len(node.name)), f"unknown function '{node.name}'", remedy)


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
