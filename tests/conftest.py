"""How thoroughly the tests search: profiles of Hypothesis, and the number of cases of a product.

``ci`` is the profile of make test: Hypothesis draws the same examples every time, so that the
result depends on the change alone. ``all`` (make test-all) draws more of them. ``fuzz`` draws new
ones without end, and prints how to repeat a failing one.

Some tests run every script with every flow, kernel and batch size. Such a product is marked
``product(keep, by)``: of its cases with the same value of the parameter ``by`` (of all of them, if
there is no ``by``) only ``keep`` run, drawn at random with a seed that is printed; of tests that
take minutes, marked with the same ``among``, that many of all their cases. ``--cases few``
(make check) draws a third of those, and six of the cases of any other test, and leaves out tests
that are marked ``long``; ``--cases all`` (make test-all) runs every case.
"""

from __future__ import annotations

import os
import random
import signal
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# The first example compiles a kernel, so a missed deadline or a slow start is no bug.
_COMMON = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}

settings.register_profile("check", derandomize=True, max_examples=8, **_COMMON)
settings.register_profile("ci", derandomize=True, max_examples=50, **_COMMON)
settings.register_profile("all", derandomize=True, max_examples=100, **_COMMON)
settings.register_profile(
    "fuzz", max_examples=int(os.environ.get("PENSTOCK_FUZZ_EXAMPLES", "20000")), **_COMMON
)
settings.load_profile("ci")

_HANDLERS: dict[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}
FEW = 6
"""The cases that make check runs of a test that is marked as no product."""
SEED = "PENSTOCK_CASE_SEED"
"""The environment variable that passes the seed to the processes of pytest-xdist."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("penstock")
    group.addoption(
        "--cases",
        choices=("few", "some", "all"),
        default="some",
        help="how many cases of a product of scripts, flows, kernels and sizes run",
    )
    group.addoption("--case-seed", type=int, help="the seed that the cases are drawn with")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "product(keep, by, among): of the cases with one value of `by`, `keep` are drawn; "
        "of those of all tests with one `among`, if it is given",
    )
    config.addinivalue_line("markers", "spark: starts Spark")
    config.addinivalue_line("markers", "long: takes seconds; make check leaves it out")
    # Under nohup, or in the background, the programs under test would ignore signals.
    for number, handler in _HANDLERS.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    given = config.getoption("--case-seed")
    if given is not None:
        os.environ[SEED] = str(given)
    os.environ.setdefault(SEED, str(random.SystemRandom().randrange(1 << 32)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that start Spark, and deselect the cases of products that were not drawn."""
    for item in items:
        group = item.get_closest_marker("xdist_group")
        if group is not None and group.args[0] in ("spark", "processes"):
            item.add_marker("spark")
    if config.getoption("--cases") == "all":
        return
    few = config.getoption("--cases") == "few"
    groups: dict[tuple[str, str], list[pytest.Item]] = defaultdict(list)
    sizes: dict[tuple[str, str], int] = {}
    for item in items:
        mark = item.get_closest_marker("product")
        parameters: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
        if mark is not None:
            test = mark.kwargs.get("among", item.nodeid.partition("[")[0])
            group = test, str(parameters.get(mark.kwargs.get("by")))
            sizes[group] = max(1, mark.args[0] // 3) if few else mark.args[0]
        elif few and parameters:
            group = item.nodeid.partition("[")[0], ""
            sizes[group] = FEW
        else:
            continue
        groups[group].append(item)
    left_out = {item for item in items if few and item.get_closest_marker("long") is not None}
    for group, cases in groups.items():
        # The value of a parameter may be shown by its address, which each process has its own.
        chance = random.Random(f"{os.environ[SEED]} {cases[0].nodeid}")
        left_out |= set(cases) - set(chance.sample(cases, min(sizes[group], len(cases))))
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if config.getoption("--cases") != "all":
        terminalreporter.write_line(
            f"Products of cases were drawn with --case-seed {os.environ[SEED]}; "
            "make test-all runs every case."
        )
