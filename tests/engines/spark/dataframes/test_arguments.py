"""A wrong argument of ``pss.sql`` or ``pss.explain`` is named, with what to write instead."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import penstock.spark as pss
from penstock.engines.spark.dataframes.arguments import OPTIONS
from penstock.errors import InputError

SQL = "SELECT id FROM r"
HAS = (
    "It has order_by, merge, idle_timeout, cores, letters, output, name, design, probe_order and "
    "stash; any other "
    "keyword is a stream of the query and takes a DataFrame."
)
FRAME = "Pass a DataFrame, streaming or static: spark.readStream or spark.read make one of files, "
FRAME += "spark.createDataFrame of rows."


class Frame:
    """Stands for a DataFrame: the arguments are wrong before anything is asked of it."""

    isStreaming = True


R = Frame()


@pytest.mark.parametrize(
    ("args", "keywords", "message"),
    [
        ((SQL,), {"r": R, "core": 2}, f"CALLER has no option core\nDid you mean cores? {HAS}"),
        (
            (SQL,),
            {"r": R, "orderby": "t"},
            f"CALLER has no option orderby\nDid you mean order_by? {HAS}",
        ),
        ((SQL,), {"r": R, "checkpoint": "."}, f"CALLER has no option checkpoint\n{HAS}"),
        ((SQL,), {"r": [1]}, f"r is list, no DataFrame of Spark\n{FRAME}"),
        ((SQL, {"r": None}), {}, f"r is NoneType, no DataFrame of Spark\n{FRAME}"),
        (
            (SQL,),
            {},
            "CALLER has no DataFrame to read\nPass one for each stream: CALLER(..., r=df).",
        ),
        (
            (SQL, R),
            {},
            "the second argument is Frame, no dict of DataFrames\n"
            "Pass them by name: CALLER(query, r=df), or CALLER(query, {'r': df}).",
        ),
        (
            (R, SQL),
            {},
            "the query is Frame, no text\nWrite CALLER('SELECT ... FROM r ...', r=df).",
        ),
        (
            (SQL, {"R": R}),
            {"r": R},
            "there are two DataFrames for R\n"
            "Pass one of them; names are compared without regard to case.",
        ),
        (
            (SQL, {1: R}),
            {},
            "the DataFrames have the name 1, which is no text\n"
            "Pass them by the names in FROM: CALLER(query, {'r': df}).",
        ),
        (
            ("SELECT id FROM name",),
            {"name": R},
            "name is an option of CALLER, and name= is given a DataFrame\n"
            "Pass a stream of that name in the second argument: CALLER(query, {'name': df}).",
        ),
        ((SQL,), {"r": R, "cores": 0}, "cores=0 is no number of cores\nPass 1 or more."),
        ((SQL,), {"r": R, "cores": True}, "cores=True is no number of cores\nPass 1 or more."),
        ((SQL,), {"r": R, "cores": "2"}, "cores='2' is no number of cores\nPass 1 or more."),
        *(
            (
                (SQL,),
                {"r": R, "idle_timeout": wrong},
                f"idle_timeout={wrong!r} is no time\nPass a number of seconds above 0.",
            )
            for wrong in (-1, 0, float("inf"), float("nan"), "1 s", True)
        ),
        *(
            (
                (SQL,),
                {"r": R, "order_by": wrong},
                f"order_by={wrong!r} names no column\n"
                "Pass the name of one, order_by='ts', or one for each stream: "
                "order_by={'r': 'ts', 's': 'at'}.",
            )
            for wrong in (1, ["ts"], {"r": 1})
        ),
        ((SQL,), {"r": R, "merge": "any"}, "unknown merge 'any'\nWrite 'order' or 'arrival'."),
        (
            (SQL,),
            {"r": R, "output": "complete"},
            "unknown output 'complete'\nWrite 'append' or 'update'.",
        ),
        ((SQL,), {"r": R, "output": None}, "unknown output None\nWrite 'append' or 'update'."),
        (
            (SQL,),
            {"r": R, "letters": "yes"},
            "letters='yes' is neither True nor False\n"
            "Write letters=True to get late tuples and dead letters as rows.",
        ),
        *(
            (
                (SQL,),
                {"r": R, "name": wrong},
                f"name={wrong!r} is no name\nPass a text that is not empty: name='pairs'.",
            )
            for wrong in ("", " ", 3)
        ),
    ],
)
@pytest.mark.parametrize("caller", ["sql", "explain"])
def test_a_wrong_argument_is_named(
    caller: str, args: tuple[Any, ...], keywords: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as error:
        getattr(pss, caller)(*args, **keywords)
    assert str(error.value) == message.replace("CALLER", f"pss.{caller}")


def test_what_is_said_of_the_options_is_true_of_both_functions() -> None:
    for function in (pss.sql, pss.explain):
        named = inspect.signature(function).parameters.values()
        assert tuple(p.name for p in named if p.kind is p.KEYWORD_ONLY) == OPTIONS


def test_what_is_split_is_a_dataframe() -> None:
    with pytest.raises(InputError) as error:
        pss.split([1])  # type: ignore[arg-type]
    assert str(error.value) == (
        "the batch is list, no DataFrame of Spark\n"
        "Pass what foreachBatch hands over: def write(batch, number), pss.split(batch)."
    )
