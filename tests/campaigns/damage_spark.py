"""Every file of checkpoints that Spark wrote, damaged in four ways: the right rows, or an error.

One checkpoint is of a command that was killed midway, one of a command that came to its end; one of
their queries joins three streams or more. For each of their files, those that Spark itself writes
too, and each of the four damages of the campaign ``damage``: ``penstock checkpoint verify`` names
the file, or says nothing; the command run again has the right rows, or an error that names the
file. The commands run again share one JVM, whose workers remember nothing of each other; a few of
them, at random, are processes of their own.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from unittest.mock import patch

from penstock.engines.spark.session import session
from tests.campaigns.damage import (
    KINDS,
    Said,
    call,
    files_of,
    some_damage,
    wrong_with,
)
from tests.kill.campaign import MULTIWAY, QUERIES, Campaign, Death

COUNT = 0
"""Every file and damage once."""
_FORGETFUL = "--conf spark.python.worker.reuse=false pyspark-shell"
_FRESH = 200
"""One in so many commands is a process of its own."""


class Written:
    """A command whose checkpoint Spark wrote, until its death or its end."""

    def __init__(self, folder: Path, seed: int, query: str, *deaths: Death) -> None:
        folder.mkdir()
        self._campaign = Campaign(folder, seed, 12_000, 2_000, query)
        self.rows = "\n".join(self._campaign.expected())
        self.checkpoint, self._kept = folder / "checkpoint", folder / "kept"
        assert self._campaign.run(*deaths) is not bool(deaths)
        shutil.copytree(self.checkpoint, self._kept)
        self.fresh = False

    def restore(self) -> None:
        shutil.rmtree(self.checkpoint)
        shutil.copytree(self._kept, self.checkpoint)
        for name in ("out.jsonl", "letters.jsonl"):
            (self._campaign.folder / name).unlink(missing_ok=True)

    def again(self) -> Said:
        """Run it again."""
        if self.fresh:
            try:
                self._campaign.run()
            except AssertionError as error:  # with the exit code, and what was said
                code, _, said = str(error).removeprefix("exit code ").partition(": ")
                return Said(int(code), said)
            return Said(0, "")
        options = self._campaign.options()
        command = self._campaign.command("--engine", "spark", *options)[3:]
        with patch("penstock.cli.run.bounded._warm_up", lambda *_: None):
            return call(*command)

    def found(self) -> str | None:
        return "\n".join(self._campaign.found())


def _copies() -> Path:
    """Where workers leave copies of their state for each other."""
    from pyspark import SparkFiles

    return Path(SparkFiles.getRootDirectory()) / "penstock"


def run(seed: int, count: int) -> int:
    """Damage files in random order: ``count`` times, or each file in each way once."""
    chance = random.Random(seed)
    outcomes: Counter[str] = Counter()
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        queries = [
            chance.choice(MULTIWAY),
            chance.choice([query for query in QUERIES if query not in MULTIWAY]),
        ]
        chance.shuffle(queries)
        killed = Written(Path(name) / "killed", seed, queries[0], Death("delivering", 4))
        ended = Written(Path(name) / "ended", seed, queries[1])
        cases = [
            (written, file, kind)
            for written in (killed, ended)
            for file in files_of(written.checkpoint)
            for kind in KINDS
        ]
        print(f"  {len(cases)} files and damages, of {queries}", flush=True)
        chance.shuffle(cases)
        count = count or len(cases)
        with patch.dict("os.environ", {"PYSPARK_SUBMIT_ARGS": _FORGETFUL}):
            spark = session("local[2]")
        try:
            for number, (written, file, kind) in enumerate(
                (cases * (count // len(cases) + 1))[:count]
            ):
                written.restore()
                written.fresh = number % _FRESH == _FRESH - 1
                damage = some_damage(chance, kind, file, files_of(written.checkpoint))
                if damage is None:
                    outcomes["nothing to damage"] += 1
                    continue
                damage.do()
                shutil.rmtree(_copies(), ignore_errors=True)
                outcome, said = wrong_with(written, damage)
                if number % 50 == 49:
                    print(f"  after {number + 1}: {dict(outcomes)}", flush=True)
                outcomes[outcome or "wrong"] += 1
                if outcome == "rows":
                    print(f"  the right rows after: {kind} {file.relative_to(written.checkpoint)}")
                if said:
                    wrong += 1
                    print(f"{damage}: {said}", flush=True)
        finally:
            spark.stop()
    for outcome, number in sorted(outcomes.items()):
        print(f"  {outcome}: {number}")
    return wrong
