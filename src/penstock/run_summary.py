"""What a run did, in numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.run_letters import RunLetter

KEPT_LETTERS = 10
SHARED = ("core", "stored", "probed", "matched")
"""What ``--summary`` says of every core: by it one can see that the work was shared."""


@dataclass
class Summary:
    """What a run did. :meth:`as_json` has the keys of ``--summary``."""

    engine: str
    kernel: str | None
    flow: str | None
    tuples_in: int = 0
    rows_out: int = 0
    late: int = 0
    dead_letters: int = 0
    shed: int = 0
    cores: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    tuples_before: int = 0
    batches: int | None = None
    spark_version: str | None = None
    letters: list[RunLetter] = field(default_factory=list)

    @property
    def tuples_per_second(self) -> float:
        """Those that an earlier run of the same checkpoint had taken do not count."""
        timed = self.tuples_in - self.tuples_before
        return timed / self.seconds if self.seconds > 0 else 0.0

    def count(self, letters: Iterable[RunLetter]) -> None:
        """Count letters, and keep the first few to be shown."""
        for found in letters:
            if found.letter.kind == "late":
                self.late += 1
            else:
                self.dead_letters += 1
            if len(self.letters) < KEPT_LETTERS:
                self.letters.append(found)

    def as_json(self) -> dict[str, object]:
        """The numbers, without the letters."""
        spark = {"batches": self.batches, "spark_version": self.spark_version}
        return {
            "engine": self.engine,
            "kernel": self.kernel,
            "flow": self.flow,
            "cores": [{name: core.get(name) for name in SHARED} for core in self.cores],
            "tuples_in": self.tuples_in,
            "rows_out": self.rows_out,
            "late": self.late,
            "dead_letters": self.dead_letters,
            "shed": self.shed,
            "seconds": self.seconds,
            "tuples_per_second": self.tuples_per_second,
            **(spark if self.spark_version is not None else {}),
        }
