"""What has to be named in several places is named in all of them: CONTRIBUTING.md lists these."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from penstock.blocks.aggregate.functions import AGGREGATES as AGGREGATE_CLASSES
from penstock.flows import make
from penstock.kernels.expressions.evaluate import OPERATIONS as EVALUATED
from penstock.kernels.probe.entry_index import LAYOUTS
from penstock.oracle import aggregate as oracle_aggregate
from penstock.oracle import evaluate, functions
from penstock.program.isa.block_instructions import BlockInstruction, JoinStreams
from penstock.program.isa.check import CHECKS
from penstock.program.isa.flow import DESIGNS, FLOWS
from penstock.program.isa.kernels import AGGREGATE_KERNELS, JOIN_KERNELS
from penstock.program.isa.table import INSTRUCTIONS
from penstock.sql.aggregates import AGGREGATES
from penstock.sql.bind.aggregate_functions import BINDERS
from penstock.sql.bind.functions import BUILDERS
from penstock.sql.operations import OPERATIONS

ROOT = Path(__file__).parent.parent
Places = Mapping[str, Collection[str]]
"""Where names are registered, and which."""


def missing(what: str, places: Places) -> list[str]:
    """A line for each name that is in one of the places and not in another."""
    found = []
    for name in sorted({name for names in places.values() for name in names}):
        here = [place for place, names in places.items() if name in names]
        found += [
            f"the {what} {name} is in {here[0]}, and not in {place}"
            for place, names in places.items()
            if name not in names
        ]
    return found


def cards(page: str, names: Collection[str]) -> set[str]:
    """Which of some names a page of the documentation has in code, as `name`."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    return {name for name in names if re.search(rf"`{re.escape(name)}`", text)}


def flows() -> Places:
    return {
        "FLOWS of program/isa/flow.py, without in_block": [
            name for name, traits in FLOWS.items() if not traits.in_block
        ],
        "FLOWS of flows/make.py": make.FLOWS,
    }


def designs() -> Places:
    return {
        "DESIGNS of program/isa/flow.py, without in_block": [
            name for name, traits in DESIGNS.items() if not traits.in_block
        ],
        "DESIGNS of flows/make.py": make.DESIGNS,
    }


def flow_cards() -> Places:
    return {
        "FLOWS or DESIGNS of program/isa/flow.py": {*FLOWS, *DESIGNS},
        "docs/algorithms.md": cards("algorithms.md", {*FLOWS, *DESIGNS}),
    }


def kernel_cards() -> Places:
    return {
        "program/isa/kernels.py": {*JOIN_KERNELS, *AGGREGATE_KERNELS},
        "docs/kernels.md or docs/aggregates.md": cards("kernels.md", JOIN_KERNELS)
        | cards("aggregates.md", AGGREGATE_KERNELS),
    }


def layouts() -> Places:
    return {
        "JOIN_KERNELS of program/isa/kernels.py, with needs": [
            name for name, kernel in JOIN_KERNELS.items() if kernel.needs
        ],
        "LAYOUTS of kernels/probe/entry_index.py": LAYOUTS,
    }


def operations() -> Places:
    return {
        "OPERATIONS of sql/operations.py": OPERATIONS,
        "OPERATIONS of kernels/expressions/": EVALUATED,
        "FUNCTIONS of oracle/functions.py": {
            *functions.FUNCTIONS,
            *evaluate.SPECIAL,
            *BRANCHES,
        },
    }


BRANCHES = ("case", "coalesce")
"""The oracle evaluates their arguments one by one, in a function for each."""


def signatures() -> Places:
    return {
        "OPERATIONS of sql/operations.py, with functions": {
            operation.signature.name for operation in OPERATIONS.values() if operation.functions
        },
        "BUILDERS of sql/bind/functions.py": BUILDERS,
    }


def aggregates() -> Places:
    return {
        "AGGREGATES of sql/aggregates.py": AGGREGATES,
        "AGGREGATES of blocks/aggregate/functions": AGGREGATE_CLASSES.keys() - {"count distinct"},
        "NUMBERS of oracle/aggregate.py": {*oracle_aggregate.NUMBERS, "count", "first", "last"},
    }


def arguments_of_aggregates() -> Places:
    return {
        "AGGREGATES of sql/aggregates.py": {one.argument for one in AGGREGATES.values()},
        "BINDERS of sql/bind/aggregate_functions.py": BINDERS,
    }


def instructions() -> Places:
    return {
        "BlockInstruction of program/isa/block_instructions.py": [
            one.__name__ for one in get_args(BlockInstruction)
        ],
        "INSTRUCTIONS of program/isa/table.py": [one.type.__name__ for one in INSTRUCTIONS.records],
        "CHECKS of program/isa/check.py": [one.__name__ for one in CHECKS],
    }


def kinds() -> Places:
    given = (one.kind_of_block for one in get_args(BlockInstruction))
    return {
        "kind_of_block of program/isa/block_instructions.py": {
            *(kind for kind in given if isinstance(kind, str) and kind != "scan"),
            *(joining(count).kind_of_block for count in (2, 3)),
        },
        # Without blocks of users, which other tests register.
        "KINDS of flows/make.py": [
            kind for kind, one in make.KINDS.items() if one.__module__.startswith("penstock.")
        ],
    }


def joining(count: int) -> JoinStreams:
    """The instruction for a join of streams, of which only their number counts."""
    several: Any = (None,) * count
    none: Any = None
    return JoinStreams(0, several, several, several, several, several, "inner", several, none,
                       none, several, False, "", "")  # fmt: skip


REGISTERS = {
    "instruction": instructions,
    "kind of block": kinds,
    "aggregate": aggregates,
    "argument of aggregates": arguments_of_aggregates,
    "operation": operations,
    "signature": signatures,
    "index": layouts,
    "flow": flows,
    "design": designs,
    "flow or design": flow_cards,
    "kernel": kernel_cards,
}


@pytest.mark.parametrize("what", REGISTERS)
def test_what_is_registered_in_one_place_is_in_all(what: str) -> None:
    assert missing(what, REGISTERS[what]()) == []


def test_a_design_that_nothing_makes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DESIGNS, "star", DESIGNS["parallel"])
    monkeypatch.setitem(make.DESIGNS, "ring", make.DESIGNS["circular"])
    assert missing("design", designs()) == [
        "the design ring is in DESIGNS of flows/make.py, and not in DESIGNS of "
        "program/isa/flow.py, without in_block",
        "the design star is in DESIGNS of program/isa/flow.py, without in_block, and not in "
        "DESIGNS of flows/make.py",
    ]


def test_the_first_kernel_of_joins_serves_every_predicate() -> None:
    assert [name for name, kernel in JOIN_KERNELS.items() if not kernel.needs] == ["nested-loop"]
