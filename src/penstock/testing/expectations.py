"""A script's expectations, compared with the outputs of its queries."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from penstock.streams.literals import canonical, parse_values
from penstock.testing.script import ExpectedRow, ExpectStep


@dataclass(frozen=True)
class Output:
    """A row, a late tuple or a dead letter of a query; ``kind`` is rows, late or dead."""

    position: int
    query: str
    kind: str
    values: str
    stream: str = ""
    reason: str = ""

    @property
    def text(self) -> str:
        """The text after the query's name."""
        if self.kind == "rows":
            return self.values
        return f"{self.stream}: {self.values}" + (
            f" ({self.reason})" if self.kind == "dead" else ""
        )

    @property
    def line(self) -> str:
        """The line that replay prints for the output.

        >>> Output(3, "pairs", "late", "5, 1", "R", "5 is below 7").line
        'late pairs: R: 5, 1'
        """
        kind = "" if self.kind == "rows" else f"{self.kind} "
        return f"{kind}{self.query}: {self.text}"


@dataclass
class Expectations:
    """Expectations in script order, each compared when all outputs before it are known."""

    failed: Callable[[str], None]
    _waiting: list[tuple[int, ExpectStep]] = field(default_factory=list)
    _outputs: dict[tuple[str, str], list[Output]] = field(default_factory=dict)

    def add(self, step: ExpectStep, position: int) -> None:
        """Add an expectation about all outputs that belong before ``position``."""
        self._waiting.append((position, step))

    def add_outputs(self, outputs: Iterable[Output]) -> None:
        """Add outputs, in the order in which they are printed."""
        for output in outputs:
            self._outputs.setdefault((output.query.lower(), output.kind), []).append(output)

    def check(self, position: int) -> None:
        """Compare the expectations that stand at ``position`` or before."""
        while self._waiting and self._waiting[0][0] <= position:
            at, step = self._waiting.pop(0)
            key = (step.query.lower(), step.kind)
            due = [output for output in self._outputs.get(key, []) if output.position < at]
            self._outputs[key] = self._outputs.get(key, [])[len(due) :]
            difference = _difference(step, due)
            if difference:
                kind = {"rows": "", "late": "late ", "dead": "dead "}[step.kind]
                ordered = "ordered " if step.ordered else ""
                head = f"line {step.line.number}: expect {ordered}{kind}{step.query} is not met"
                self.failed("\n".join([head, *difference]))


def _difference(step: ExpectStep, outputs: list[Output]) -> list[str]:
    """The lines of a diff; none if the expectation is met."""
    left = list(outputs)
    expected = [_meet(row, step.kind, left) for row in step.rows]
    found = [output.text for output in outputs]
    if not step.ordered:
        expected, found = sorted(expected), sorted(found)
    return list(difflib.unified_diff(expected, found, "expected", "came", lineterm=""))


def _meet(row: ExpectedRow, kind: str, left: list[Output]) -> str:
    """The text of the first output that matches, removed from ``left``; else the row's own text.

    So a value may be written differently from how it is printed.
    """
    for index, output in enumerate(left):
        if _is_met(row, kind, output):
            return left.pop(index).text
    values = ", ".join(value.text for value in row.values)
    if kind == "rows":
        return values
    return f"{row.stream}: {values}" + (f" ({row.reason})" if row.reason is not None else "")


def _is_met(row: ExpectedRow, kind: str, output: Output) -> bool:
    if kind != "rows" and (row.stream or "").lower() != output.stream.lower():
        return False
    if row.reason is not None and row.reason != output.reason:
        return False
    if ", ".join(value.text for value in row.values) == output.values:
        return True
    values = parse_values(output.values)
    return list(map(canonical, row.values)) == list(map(canonical, values))
