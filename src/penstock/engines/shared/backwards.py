"""Punctuations that say less than an earlier one: ignored, counted, and warned of once."""

from __future__ import annotations

import warnings
from typing import Any

from penstock.streams.events import Punctuation
from penstock.streams.literals import format_value
from penstock.streams.schema import Stream

Promises = dict[int | None, Any]
"""What has been promised of a stream, by the number of the column; None: of any."""


class Backwards:
    """Tells punctuations that promise something from those that do not.

    ``count`` is how many said less than an earlier one.
    """

    def __init__(self) -> None:
        self.count = 0
        self._warned = False

    def is_new(self, event: Punctuation, stream: Stream, known: Promises) -> bool:
        """Whether it promises more than what is known; if so, that is known from now on."""
        column = column_of(event, stream)
        value: Any = event.value
        if column in known and value <= known[column]:
            if value < known[column]:
                self.count += 1
                self._warn(event, stream, column, known[column])
            return False
        known[column] = value
        return True

    def _warn(self, event: Punctuation, stream: Stream, column: int | None, before: Any) -> None:
        if self._warned:
            return
        self._warned = True
        values = [before, event.value]
        if column is not None:  # without an attribute there are plain numbers alone
            values = [format_value(value, stream.schema.field(column).type) for value in values]
        warnings.warn(
            f"a punctuation of stream {stream.name} goes back, from {values[0]} to {values[1]}, "
            "and is ignored; the engine's ignored_punctuations counts all that do",
            stacklevel=2,
        )


def column_of(event: Punctuation, stream: Stream) -> int | None:
    """The number of the column that a punctuation is of; None if it does not say."""
    attribute = event.attribute or stream.time
    return stream.index_of(attribute) if attribute is not None else None
