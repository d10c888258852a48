"""The arguments of ``pss.sql`` and ``pss.explain``, checked one by one.

Python takes every unknown keyword for a DataFrame of that name. So a keyword that is no DataFrame
and that the query does not read is an option that does not exist.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

from pyspark.sql import DataFrame

from penstock.engines.spark.flow import check_on_spark
from penstock.errors import InputError
from penstock.program.isa.flow import FlowChoice


@dataclass(frozen=True)
class Request:
    """The keywords of ``pss.sql`` that are no DataFrames, as the user gave them."""

    order_by: str | Mapping[str, str] | None = None
    merge: str = "order"
    idle_timeout: float | timedelta | None = None
    cores: int | None = None
    letters: bool = False
    output: str = "append"
    name: str | None = None
    design: str | None = None
    probe_order: str | None = None
    stash: int | None = None

    def check(self, caller: str) -> None:
        """Refuse values that are valid for no query."""
        _check_no_frames(caller, vars(self))
        _check_order_by(self.order_by)
        _check_choice("merge", self.merge, ("order", "arrival"))
        milliseconds(self.idle_timeout)
        if not isinstance(self.letters, bool):
            raise InputError(
                f"letters={_shown(self.letters)} is neither True nor False",
                "Write letters=True to get late tuples and dead letters as rows.",
            )
        _check_choice("output", self.output, ("append", "update"))
        _check_cores(self.cores)
        _check_name(self.name)
        check_on_spark(self.flow)

    @property
    def flow(self) -> FlowChoice:
        """How the joins are to be run, as far as it was asked for."""
        return FlowChoice(design=self.design, probe_order=self.probe_order, stash=self.stash)


OPTIONS = tuple(field.name for field in fields(Request))


def _check_order_by(order_by: Any) -> None:
    columns = order_by.items() if isinstance(order_by, Mapping) else [("", order_by)]
    if order_by is None or all(isinstance(one, str) for pair in columns for one in pair):
        return
    raise InputError(
        f"order_by={_shown(order_by)} names no column",
        "Pass the name of one, order_by='ts', or one for each stream: "
        "order_by={'r': 'ts', 's': 'at'}.",
    )


def _check_choice(option: str, value: Any, choices: tuple[str, str]) -> None:
    if value not in choices:
        one, other = choices
        raise InputError(f"unknown {option} {_shown(value)}", f"Write {one!r} or {other!r}.")


def milliseconds(timeout: Any) -> int | None:
    """A number of seconds or a timedelta in milliseconds, one at least; None stays None."""
    if timeout is None:
        return None
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not seconds > 0 or math.isinf(seconds):
        raise InputError(
            f"idle_timeout={_shown(timeout)} is no time", "Pass a number of seconds above 0."
        )
    return max(1, round(seconds * 1000))


def _check_cores(cores: Any) -> None:
    """Refuse a value that is no number of cores; None: all cores of the context."""
    number = isinstance(cores, int) and not isinstance(cores, bool)
    if cores is not None and (not number or cores < 1):
        raise InputError(f"cores={_shown(cores)} is no number of cores", "Pass 1 or more.")


def _check_name(name: Any) -> None:
    """Refuse a name of the metrics that Spark does not allow."""
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise InputError(
            f"name={_shown(name)} is no name", "Pass a text that is not empty: name='pairs'."
        )


def check_text(caller: str, query: Any) -> None:
    """Refuse a query that is no text."""
    if not isinstance(query, str):
        raise InputError(
            f"the query is {type(query).__name__}, no text",
            f"Write {caller}('SELECT ... FROM r ...', r=df).",
        )


def frames_given(
    caller: str, reads: Iterable[str], streams: Any, frames: Mapping[str, Any]
) -> dict[str, DataFrame]:
    """The DataFrames by name, of the second argument and of the keywords.

    ``reads`` are the names in the query, in lower case.
    """
    if streams is not None and not isinstance(streams, Mapping):
        raise InputError(
            f"the second argument is {type(streams).__name__}, no dict of DataFrames",
            f"Pass them by name: {caller}(query, r=df), or {caller}(query, {{'r': df}}).",
        )
    known: dict[str, str] = {}
    for name in (*(streams or ()), *frames):
        if not isinstance(name, str):
            raise InputError(
                f"the DataFrames have the name {_shown(name)}, which is no text",
                f"Pass them by the names in FROM: {caller}(query, {{'r': df}}).",
            )
        if name.lower() in known:
            raise InputError(
                f"there are two DataFrames for {known[name.lower()]}",
                "Pass one of them; names are compared without regard to case.",
            )
        known[name.lower()] = name
    asked = set(reads)
    for name, frame in frames.items():
        if not _is_frame(frame) and name.lower() not in asked:
            raise _no_option(caller, name)
    given = {**(streams or {}), **frames}
    for name, frame in given.items():
        if not _is_frame(frame):
            raise InputError(
                f"{name} is {type(frame).__name__}, no DataFrame of Spark",
                "Pass a DataFrame, streaming or static: spark.readStream or spark.read make one "
                "of files, spark.createDataFrame of rows.",
            )
    if not given:
        raise InputError(
            f"{caller} has no DataFrame to read", f"Pass one for each stream: {caller}(..., r=df)."
        )
    return given


def _check_no_frames(caller: str, options: Mapping[str, Any]) -> None:
    """Refuse a DataFrame where an option is expected: a stream may have the name of one."""
    for name, value in options.items():
        if _is_frame(value):
            raise InputError(
                f"{name} is an option of {caller}, and {name}= is given a DataFrame",
                "Pass a stream of that name in the second argument: "
                f"{caller}(query, {{{name!r}: df}}).",
            )


def _no_option(caller: str, name: str) -> InputError:
    near = get_close_matches(name.lower(), OPTIONS, 1)
    hint = f"Did you mean {near[0]}? " if near else ""
    last = f"{', '.join(OPTIONS[:-1])} and {OPTIONS[-1]}"
    return InputError(
        f"{caller} has no option {name}",
        f"{hint}It has {last}; any other keyword is a stream of the query and takes a DataFrame.",
    )


def _is_frame(value: Any) -> bool:
    return hasattr(value, "isStreaming")


def _shown(value: Any) -> str:
    """A plain value as a literal; anything else by its type."""
    plain = isinstance(value, str | int | float | timedelta | Mapping | list | tuple)
    return repr(value) if plain or value is None else type(value).__name__
