"""Codecs: how the fields of a program are encoded as JSON, decoded, and documented.

A codec encodes a value, decodes it or raises an error with the expected form and the path, and has
a text for the documentation. Records are lists of fields, each with its codec; no other code knows
the fields.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NoReturn, Protocol

import pyarrow as pa

from penstock.errors import ProgramError
from penstock.program.isa.values import (
    constant_from,
    constant_of,
    name_of_type,
    type_of_name,
    value_meaning,
)
from penstock.sql.expressions import Expression, Literal, children

IS = "is"
"""The field of an object that says which of several records it is."""
REMEDY = "Pass a program as to_json wrote it, or compile the query from its SQL again."
MOST_NODES = 1 << 24
"""The largest number of nodes of an expression, shared nodes counted at each use."""


def wrong(path: str, expected: str, found: Any) -> NoReturn:
    """Refuse the value at a path."""
    raise ProgramError(f"{path or 'program'}: expected {expected}, found {shown(found)}", REMEDY)


def shown(found: Any) -> str:
    """A value, short enough for a message."""
    text = json.dumps(found)
    return text if len(text) <= 60 else f"{text[:57]}..."


class Encoder:
    """Tables of types, constants and expressions that grow while a program is encoded.

    Equal entries have one index. With ``identity`` the fields for people and those of the placement
    are left out, so that programs which differ in those alone are encoded alike.
    """

    def __init__(self, expressions: Union, identity: bool) -> None:
        self.identity = identity
        self.tables: dict[str, list[Any]] = {"types": [], "constants": [], "expressions": []}
        self._places: dict[tuple[str, str], int] = {}
        self._expressions = expressions
        self._known: dict[int, int] = {}

    def place(self, table: str, entry: Any) -> int:
        """The index of an entry, which is added if it is new."""
        key = (table, canonical(entry))
        entries = self.tables[table]
        if key not in self._places:
            self._places[key] = len(entries)
            entries.append(entry)
        return self._places[key]

    def expression(self, root: Expression) -> int:
        """The index of an expression, greater than those of its operands; no recursion."""
        waiting = [root]
        while waiting:
            node = waiting[-1]
            below = [one for one in children(node) if id(one) not in self._known]
            if below:
                waiting.extend(reversed(below))
                continue
            waiting.pop()
            if id(node) not in self._known:
                entry = self._expressions.encode(node, self)
                self._known[id(node)] = self.place("expressions", entry)
        return self._known[id(root)]


@dataclass
class Decoder:
    """The tables of a program, as far as they have been decoded.

    ``sizes`` has the number of nodes of every expression, by its id. With ``identity``, the fields
    that an :class:`Encoder` with it leaves out are not there.
    """

    types: list[pa.DataType] = field(default_factory=list)
    constants: list[Literal] = field(default_factory=list)
    expressions: list[Expression] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)
    identity: bool = False


def canonical(found: Any) -> str:
    """The one text of a JSON value: keys sorted, no spaces, ASCII."""
    return json.dumps(found, sort_keys=True, separators=(",", ":"), allow_nan=False)


class Codec(Protocol):
    """One kind of field."""

    @property
    def meaning(self) -> str:
        """The content of the JSON, for the documentation."""

    def encode(self, value: Any, encoder: Encoder) -> Any: ...

    def decode(self, found: Any, decoder: Decoder, path: str) -> Any: ...


# -- single values --------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """Any text."""

    meaning: str = "text"

    def encode(self, value: Any, encoder: Encoder) -> Any:
        return value

    def decode(self, found: Any, decoder: Decoder, path: str) -> str:
        return found if isinstance(found, str) else wrong(path, "a text", found)


@dataclass(frozen=True)
class Truth:
    """True or false."""

    meaning: str = "true or false"

    def encode(self, value: Any, encoder: Encoder) -> Any:
        return value

    def decode(self, found: Any, decoder: Decoder, path: str) -> bool:
        return found if isinstance(found, bool) else wrong(path, "true or false", found)


@dataclass(frozen=True)
class Whole:
    """A whole number that is not below ``least``."""

    least: int | None = None

    @property
    def meaning(self) -> str:
        return "whole number" + ("" if self.least is None else f", {self.least} or more")

    def encode(self, value: Any, encoder: Encoder) -> Any:
        return value

    def decode(self, found: Any, decoder: Decoder, path: str) -> int:
        if type(found) is not int or (self.least is not None and found < self.least):
            wrong(path, f"a {self.meaning}", found)
        return found


@dataclass(frozen=True)
class Number:
    """A whole number or a fraction that is not below 0."""

    meaning: str = "number, 0 or more"

    def encode(self, value: Any, encoder: Encoder) -> Any:
        return value

    def decode(self, found: Any, decoder: Decoder, path: str) -> int | float:
        if type(found) not in (int, float) or not 0 <= found < math.inf:
            wrong(path, f"a {self.meaning}", found)
        return found  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Ratio:
    """An exact fraction."""

    meaning: str = 'exact fraction as a text, `"3/2"` or `"60"`'

    def encode(self, value: Any, encoder: Encoder) -> Any:
        return str(value)

    def decode(self, found: Any, decoder: Decoder, path: str) -> Fraction:
        try:
            ratio = Fraction(found) if isinstance(found, str) else None
        except (ValueError, ZeroDivisionError):
            ratio = None
        if ratio is None or str(ratio) != found:
            wrong(path, "an exact fraction such as '3/2'", found)
        return ratio


@dataclass(frozen=True)
class OneOf:
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def meaning(self) -> str:
        return "one of " + ", ".join(f"`{word}`" for word in self.words)

    def encode(self, value: Any, encoder: Encoder) -> Any:
        return value

    def decode(self, found: Any, decoder: Decoder, path: str) -> str:
        if found not in self.words:
            wrong(path, f"one of {', '.join(self.words)}", found)
        return found  # type: ignore[no-any-return]


# -- several values -------------------------------------------------------------------------


@dataclass(frozen=True)
class Maybe:
    """A value, or null for None."""

    of: Codec

    @property
    def meaning(self) -> str:
        return f"{self.of.meaning}; or null"

    def encode(self, value: Any, encoder: Encoder) -> Any:
        return None if value is None else self.of.encode(value, encoder)

    def decode(self, found: Any, decoder: Decoder, path: str) -> Any:
        return None if found is None else self.of.decode(found, decoder, path)


@dataclass(frozen=True)
class Several:
    """A list, of ``length`` entries if that is given, of ``least`` or more."""

    of: Codec
    length: int | None = None
    least: int = 0

    @property
    def meaning(self) -> str:
        count = f"list of {self.least} or more" if self.least else "list"
        count = count if self.length is None else f"list of {self.length}"
        return f"{count}: {self.of.meaning}"

    def encode(self, value: Any, encoder: Encoder) -> Any:
        return [self.of.encode(one, encoder) for one in value]

    def decode(self, found: Any, decoder: Decoder, path: str) -> tuple[Any, ...]:
        if not isinstance(found, list):
            wrong(path, "a list", found)
        if self.length is not None and len(found) != self.length:
            wrong(path, f"a list of {self.length}", found)
        if len(found) < self.least:
            wrong(path, f"a list of {self.least} or more", found)
        return tuple(self.of.decode(one, decoder, f"{path}[{i}]") for i, one in enumerate(found))


# -- the tables -----------------------------------------------------------------------------


def _entry(table: Sequence[Any], found: Any, path: str) -> Any:
    if type(found) is not int or not 0 <= found < len(table):
        wrong(path, f"an index below {len(table)}", found)
    return table[found]


@dataclass(frozen=True)
class TypeName:
    """An entry of the table of types: its name in SQL."""

    meaning: str = 'name of a type, such as `"int64"`, `"decimal(12, 2)"`, `"timestamp(3)"`'

    def encode(self, value: Any, encoder: Encoder) -> Any:
        return name_of_type(value)

    def decode(self, found: Any, decoder: Decoder, path: str) -> pa.DataType:
        kind = type_of_name(found) if isinstance(found, str) else None
        return wrong(path, "the name of a type", found) if kind is None else kind


@dataclass(frozen=True)
class TypeIndex:
    """A type."""

    meaning: str = "index of a type"

    def encode(self, value: Any, encoder: Encoder) -> Any:
        return encoder.place("types", name_of_type(value))

    def decode(self, found: Any, decoder: Decoder, path: str) -> pa.DataType:
        kind: pa.DataType = _entry(decoder.types, found, path)
        return kind


@dataclass(frozen=True)
class Constant:
    """An entry of the table of constants."""

    meaning: str = f"object with `type` (index of a type) and `value` ({value_meaning})"

    def encode(self, value: Any, encoder: Encoder) -> Any:
        kind = encoder.place("types", name_of_type(value.type))
        return {"type": kind, "value": constant_of(value)}

    def decode(self, found: Any, decoder: Decoder, path: str) -> Literal:
        check_keys(found, ("type", "value"), path)
        kind = _entry(decoder.types, found["type"], f"{path}.type")
        try:
            return Literal(constant_from(found["value"], kind), kind)
        except ValueError as error:
            wrong(f"{path}.value", str(error), found["value"])


@dataclass(frozen=True)
class ConstantIndex:
    """A constant."""

    meaning: str = "index of a constant"

    def encode(self, value: Any, encoder: Encoder) -> Any:
        return encoder.place("constants", Constant().encode(value, encoder))

    def decode(self, found: Any, decoder: Decoder, path: str) -> Literal:
        literal: Literal = _entry(decoder.constants, found, path)
        return literal


@dataclass(frozen=True)
class ExpressionIndex:
    """An expression; inside the table of expressions, one that stands before it."""

    meaning: str = "index of an expression"

    def encode(self, value: Any, encoder: Encoder) -> Any:
        return encoder.expression(value)

    def decode(self, found: Any, decoder: Decoder, path: str) -> Expression:
        expression: Expression = _entry(decoder.expressions, found, path)
        return expression


@dataclass(frozen=True)
class Columns:
    """The columns of a schema. ``named``: whether their names are part of the meaning."""

    named: bool = True

    @property
    def meaning(self) -> str:
        return "list of columns: objects with `name` (text) and `type` (index of a type)"

    def encode(self, value: Any, encoder: Encoder) -> Any:
        types = [TypeIndex().encode(one.type, encoder) for one in value]
        if not self.named and encoder.identity:
            return [{"type": kind} for kind in types]
        return [{"name": n, "type": k} for n, k in zip(value.names, types, strict=True)]

    def decode(self, found: Any, decoder: Decoder, path: str) -> pa.Schema:
        if not isinstance(found, list):
            wrong(path, "a list", found)
        fields: list[pa.Field[Any]] = []
        for i, one in enumerate(found):
            check_keys(one, ("name", "type"), f"{path}[{i}]")
            name = Text().decode(one["name"], decoder, f"{path}[{i}].name")
            if not name.isascii() and not _encodes(name):
                wrong(f"{path}[{i}].name", "whole characters", name)
            kind = _entry(decoder.types, one["type"], f"{path}[{i}].type")
            fields.append(pa.field(name, kind))
        return pa.schema(fields)


def _encodes(name: str) -> bool:
    """Whether a name has no half characters, which Arrow cannot hold."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


# -- records --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """A field of a record: its name there and here, its codec, what it means.

    Two kinds of fields are left out of the digest, since neither rows nor state depend on them:
    those ``for_people``, on which nothing depends, and those of the ``placement``, by which an
    engine places the blocks. ``absent`` is the value of one that was left out.
    """

    name: str
    codec: Codec
    meaning: str
    for_people: bool = False
    placement: bool = False
    absent: Any = ""

    @property
    def identifies(self) -> bool:
        """Whether programs that differ in it are different ones."""
        return not (self.for_people or self.placement)


def check_keys(found: Any, names: Sequence[str], path: str) -> None:
    """Refuse a value that is no object with exactly these fields."""
    if not isinstance(found, dict):
        wrong(path, "an object", found)
    for name in names:
        if name not in found:
            raise ProgramError(f"{path or 'program'}: the field {name!r} is missing", REMEDY)
    for name in found:
        if name not in names:
            raise ProgramError(f"{path or 'program'}: unknown field {name!r}", REMEDY)


@dataclass(frozen=True)
class Record:
    """An object with fields.

    ``parts`` splits a value into its fields, ``make`` builds it from them, and ``check`` refuses a
    value with inconsistent fields; it receives the path before their names.
    """

    name: str
    type: type[Any]
    fields: tuple[Field, ...]
    meaning: str
    parts: Callable[[Any], Mapping[str, Any]] = vars
    make: Callable[..., Any] | None = None
    check: Callable[[Any, str], None] | None = None

    def field(self, name: str) -> Field:
        """The field of that name."""
        return next(one for one in self.fields if one.name == name)

    def without(self, names: Collection[str]) -> Record:
        """The record without these fields; decoded, it gives the others by their names."""
        others = tuple(one for one in self.fields if one.name not in names)
        return replace(self, fields=others, make=dict, check=None)

    def encode(self, value: Any, encoder: Encoder) -> dict[str, Any]:
        parts = self.parts(value)
        return {
            one.name: one.codec.encode(parts[one.name], encoder)
            for one in self.fields
            if one.identifies or not encoder.identity
        }

    def decode(self, found: Any, decoder: Decoder, path: str, kind: bool = False) -> Any:
        """The value; ``kind``: whether the object also says which record it is."""
        there = [one for one in self.fields if one.identifies or not decoder.identity]
        names = [one.name for one in there]
        check_keys(found, [IS, *names] if kind else names, path)
        dot = f"{path}." if path else ""
        values = {one.name: one.absent for one in self.fields}
        for one in there:
            values[one.name] = one.codec.decode(found[one.name], decoder, f"{dot}{one.name}")
        value = (self.make or self.type)(**values)
        if self.check is not None:
            self.check(value, dot)
        return value


@dataclass(frozen=True)
class Union:
    """One of several records; the object says which by its field ``is``."""

    name: str
    records: tuple[Record, ...]

    @property
    def meaning(self) -> str:
        return self.name

    def record_of(self, value: Any) -> Record:
        """The record of a value, by its class."""
        return next(one for one in self.records if type(value) is one.type)

    def encode(self, value: Any, encoder: Encoder) -> dict[str, Any]:
        record = self.record_of(value)
        return {IS: record.name, **record.encode(value, encoder)}

    def decode(self, found: Any, decoder: Decoder, path: str) -> Any:
        kind = found.get(IS) if isinstance(found, dict) else wrong(path, "an object", found)
        record = next((one for one in self.records if one.name == kind), None)
        if record is None:
            names = ", ".join(one.name for one in self.records)
            dot = f"{path}." if path else ""
            wrong(f"{dot}{IS}", f"one of {names}", kind)
        return record.decode(found, decoder, path, kind=True)


@dataclass(frozen=True)
class Nested:
    """A record as a field of another."""

    record: Record

    @property
    def meaning(self) -> str:
        return self.record.name

    def encode(self, value: Any, encoder: Encoder) -> Any:
        return self.record.encode(value, encoder)

    def decode(self, found: Any, decoder: Decoder, path: str) -> Any:
        return self.record.decode(found, decoder, path)
