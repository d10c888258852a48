"""The columns that a stream may have."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import InputError
from penstock.streams.schema import Stream, parse_type

ZONE_HELP = "Write a name of the IANA database, such as 'Europe/Berlin', or an offset: '+02:00'."


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+02:00", "-0330"])
def test_zones(zone: str) -> None:
    kind = parse_type(f"TIMESTAMP(6, '{zone}')")
    assert kind == pa.timestamp("us", zone)
    assert Stream.of("R", pa.schema({"t": kind})).schema.field(0).type == kind


@pytest.mark.parametrize("zone", ["Mars/X", "Europe", "../etc/passwd", "+24:00", "+2", "\u00fc"])
def test_a_zone_that_does_not_exist_is_refused(zone: str) -> None:
    with pytest.raises(InputError) as error:
        parse_type(f"TIMESTAMP(6, '{zone}')")
    assert str(error.value) == f"unknown time zone {zone!r}\n{ZONE_HELP}"
    with pytest.raises(InputError) as error:
        Stream.of("R", pa.schema({"x": pa.int8(), "t": pa.timestamp("s", zone)}))
    assert str(error.value) == (
        f"column 't' of stream R has the unknown time zone {zone!r}\n{ZONE_HELP}"
    )
