"""Punctuations from Python values."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.errors import InputError
from penstock.streams.events import Punctuation
from penstock.streams.punctuation import to_punctuation
from penstock.streams.schema import Stream

STREAM = Stream.of(
    "R",
    pa.schema(
        {
            "i": pa.int32(),
            "u": pa.uint8(),
            "f": pa.float64(),
            "wide": pa.decimal128(38, 0),
            "cents": pa.decimal128(5, 2),
            "day": pa.date32(),
            "t": pa.timestamp("us"),
        }
    ),
)


@pytest.mark.parametrize(
    ("attribute", "value", "kind"),
    [
        ("i", math.inf, "int32"),
        ("i", -math.inf, "int32"),
        ("i", 10**30, "int32"),
        ("i", 2**31, "int32"),
        ("u", -1, "uint8"),
        ("f", 10**400, "double"),
        ("wide", 10**38, "decimal(38, 0)"),
        ("wide", math.inf, "decimal(38, 0)"),
        ("cents", 1000, "decimal(5, 2)"),
        ("day", 2**31, "date"),
        ("t", 10**30, "timestamp"),
        ("t", math.inf, "timestamp"),
    ],
)
def test_what_does_not_fit_the_attribute_is_refused(
    attribute: str, value: object, kind: str
) -> None:
    with pytest.raises(InputError) as error:
        to_punctuation(STREAM, value, attribute)
    assert str(error.value) == (
        f"the punctuation {value!r} is no {kind}, which the attribute {attribute} of stream R is\n"
        f"Write a value of the type {kind}."
    )


@pytest.mark.parametrize(
    ("attribute", "value", "physical"),
    [
        ("i", 2**31 - 1, 2**31 - 1),
        ("f", -math.inf, -math.inf),
        ("wide", 10**30, Decimal(10**30)),
        ("cents", 1, Decimal("1.00")),
        ("t", -(2**63), -(2**63)),
        (None, 10**30, 10**30),
        (None, 1e300, 1e300),
    ],
)
def test_what_fits_is_a_value_of_the_attribute(
    attribute: str | None, value: object, physical: object
) -> None:
    assert to_punctuation(STREAM, value, attribute) == Punctuation("R", physical, attribute)


@pytest.mark.parametrize("value", [math.inf, -math.inf, 10**38, -(10**38)])
def test_on_no_particular_attribute_a_number_must_be_one_that_tuples_have(value: object) -> None:
    with pytest.raises(InputError) as error:
        to_punctuation(STREAM, value)
    assert str(error.value) == (
        f"a punctuation of stream R cannot be {value}\n"
        "Give a value that tuples may have, or end the stream if no further one comes."
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Decimal("sNaN"), "sNaN"),
        (Decimal("1e-999999999"), "1E-999999999"),
        ("1e-999999999", "'1e-999999999'"),
        ([1], "'[1]'"),
        ("\ud800", "'\ufffd\ufffd\ufffd'"),
    ],
)
def test_values_that_nothing_can_be_compared_with_are_refused(value: object, shown: str) -> None:
    stream = Stream.of("R", pa.schema({"p": pa.decimal128(10, 2)}), time="p")
    with pytest.raises(InputError) as error:
        to_punctuation(stream, value)
    assert str(error.value) == (
        f"the punctuation {shown} is no decimal(10, 2), which the attribute p of stream R is\n"
        "Write a value of the type decimal(10, 2)."
    )
    with pytest.raises(InputError):
        to_punctuation(Stream.of("R", pa.schema({"x": pa.int64()})), 10**5000)
