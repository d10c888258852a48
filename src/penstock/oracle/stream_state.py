"""A stream as its readers see it: its punctuations, and whether it has ended."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa

from penstock.oracle.values import Row, Type, Value
from penstock.streams.literals import format_value
from penstock.streams.schema import Stream


@dataclass
class StreamState:
    """A stream that is pushed to, or that a query derives.

    ``punctuations`` has the largest punctuation of each attribute, by its name in lower case. The
    key None stands for the attribute that a query uses as time, for streams without a declared one.
    ``furthest`` is the largest time, or punctuation of it, seen in a stream with a MAX LEAD.
    """

    stream: Stream
    derived: bool = False
    ended: bool = False
    furthest: Value = None
    punctuations: dict[str | None, Value] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return self.stream.name.lower()

    def punctuate(self, attribute: str | None, value: Value) -> None:
        """Add a punctuation; a smaller one than before is ignored."""
        name = attribute if attribute is not None else self.stream.time
        known = self.punctuations.get(name.lower() if name else None)
        if known is None or value > known:
            self.punctuations[name.lower() if name else None] = value

        lead_time = self.stream.time if self.stream.max_lead is not None else None
        if name is not None and lead_time is not None and name.lower() == lead_time.lower():
            self._advance(value)

    def _advance(self, time: Value) -> None:
        self.furthest = time if self.furthest is None else max(self.furthest, time)

    def too_far(self, row: Row) -> str | None:
        """Why a tuple is too far ahead of its stream, or None.

        If it is not, ``furthest`` advances to its time. A tuple without a time is never too far
        ahead.
        """
        lead, name = self.stream.max_lead, self.stream.time
        if lead is None or name is None:
            return None
        column = self.stream.index_of(name) or 0
        time, kind = row[column], self.stream.schema.field(column).type
        if time is None or time != time or time in (math.inf, -math.inf):
            return None
        if self.furthest is not None and time > self.furthest + _in_units(lead, kind):
            shown = format_value(self.furthest, kind)
            ahead = f"is more than {self.stream.lead_clause} ahead of {shown}"
            return f"{name} = {format_value(time, kind)} {ahead}"
        self._advance(time)
        return None

    def punctuation(self, attribute: str) -> Value:
        """The punctuation of an attribute, or None."""
        values = (self.punctuations.get(attribute.lower()), self.punctuations.get(None))
        return max((value for value in values if value is not None), default=None)


def _in_units(lead: Fraction, kind: Type) -> Value:
    """A MAX LEAD as a difference of two values: units for a timestamp, days for a date."""
    if pa.types.is_floating(kind):
        return float(lead)
    if pa.types.is_decimal(kind):
        return Decimal(lead.numerator) / Decimal(lead.denominator)
    units = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    if pa.types.is_timestamp(kind):
        return lead * units[kind.unit]
    return lead / 86_400 if pa.types.is_date(kind) else lead
