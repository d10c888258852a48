"""``python -m tests.kill --kills 20``: see ``make kill-test``."""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.kill.campaign import Campaign, Death
from tests.kill.hooks.sitecustomize import FUNCTIONS

MOST_CALLS = {"running": 30, "writing": 12, "packing": 6, "sinking": 8}
WORKERS = ("reading", "running", "writing", "heading")
"""Phases that happen in a worker, so that it can die alone."""


def draw(chance: random.Random, number: int) -> Death:
    """Every phase in its turn, at a random call of it; or a random moment."""
    phases = [*FUNCTIONS, "anywhere"]
    phase = phases[number % len(phases)]
    if phase == "anywhere":
        return Death(phase, chance.randrange(2_000, 12_000))
    who = chance.choice(("all", "all", "worker")) if phase in WORKERS else "all"
    return Death(phase, chance.randint(1, MOST_CALLS.get(phase, 3)), who)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.kill", description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    chance = random.Random(arguments.seed)
    died: Counter[str] = Counter()
    drawn = runs = 0
    while died.total() < arguments.kills:
        with tempfile.TemporaryDirectory(prefix="penstock-kill-") as folder:
            campaign = Campaign(Path(folder), chance.randrange(1 << 30))
            expected = campaign.expected()
            started = time.monotonic()
            done = False
            while not done:
                enough = died.total() + campaign.died.total() >= arguments.kills
                deaths = [] if enough else [draw(chance, drawn)]
                drawn += 1
                done = campaign.run(*deaths)
            found = campaign.found()
            runs += 1
            died += campaign.died
            print(
                f"run {runs}: {campaign.died.total()} kills, {campaign.starts} starts, "
                f"{len(found) - 1} rows and letters, {time.monotonic() - started:.0f} s: "
                f"{'each once' if found == expected else 'NOT THOSE OF THE EMBEDDED ENGINE'}",
                flush=True,
            )
            if found != expected:
                raise SystemExit(1)
    print(f"{died.total()} kills: " + ", ".join(f"{name} {n}" for name, n in sorted(died.items())))


if __name__ == "__main__":
    main()
