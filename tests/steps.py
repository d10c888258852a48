"""The steps of a random script."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st


@dataclass(frozen=True)
class Step:
    """One step of a script: a verb and its arguments."""

    verb: str
    subject: str = ""
    value: Any = None


def rare_steps(
    draw: Any, stream: str, queries: list[str], ended: set[str], installed: dict[str, Any]
) -> list[Step]:
    """The end of a stream, a record that is no tuple of it, or the end of one of the queries.

    What has ended, and what is installed, is so from there on.
    """
    rare = draw(st.sampled_from(("end", "malformed", "drop")))
    if rare == "end":
        ended.add(stream)
        return [Step("end", stream)]
    if rare == "malformed":
        return [Step("malformed", stream, "'?'")]
    if not queries:
        return []
    name = draw(st.sampled_from(queries))
    del installed[name]
    return [Step("drop", name)]
