"""Run a campaign: ``python -m tests.campaigns NAME [--seed S] [--count N]``.

A campaign is a module of this package. Its ``run(seed, count)`` tries ``count`` random cases,
prints what it tried, and returns how many of them went wrong, each with the line that repeats it.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import random
import signal
import sys
from pathlib import Path

CAMPAIGNS = sorted(
    module.name
    for module in pkgutil.iter_modules([str(Path(__file__).parent)])
    if not module.name.startswith("_")
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns", description=__doc__)
    parser.add_argument("name", choices=CAMPAIGNS)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--count", type=int, default=None, help="the campaign's own if not given")
    given = parser.parse_args()
    # A shell that runs this in the background has it ignore SIGINT, and what it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    campaign = importlib.import_module(f"tests.campaigns.{given.name}")
    count = campaign.COUNT if given.count is None else given.count
    cases = f"{count} cases" if count else "all cases"
    print(f"{given.name}: {cases}, --seed {given.seed}", flush=True)
    wrong: int = campaign.run(given.seed, count)
    print(f"{given.name}: {cases}, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
