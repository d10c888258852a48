"""A stream as its readers see it: what has been promised about it, and whether it has ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.oracle.values import Value
from penstock.streams.schema import Stream


@dataclass
class Source:
    """A stream that tuples are pushed to, or that a query derives.

    ``promised`` has the largest punctuation of each attribute, by its name in lower case. None
    stands for whatever attribute is used as the time of a stream that has declared none.
    """

    stream: Stream
    derived: bool = False
    ended: bool = False
    promised: dict[str | None, Value] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return self.stream.name.lower()

    def punctuate(self, attribute: str | None, value: Value) -> None:
        """Promise that no further value of the attribute is below this; never take one back."""
        name = attribute if attribute is not None else self.stream.time
        known = self.promised.get(name.lower() if name else None)
        if known is None or value > known:
            self.promised[name.lower() if name else None] = value

    def promise(self, attribute: str) -> Value:
        """The promise about an attribute, or None."""
        promises = (self.promised.get(attribute.lower()), self.promised.get(None))
        return max((value for value in promises if value is not None), default=None)
