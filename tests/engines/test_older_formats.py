"""An engine in an older format is refused, and the error names the version that saved it."""

from __future__ import annotations

import pytest
from tests.engines.older_formats import saved_engine

import penstock as ps
from penstock.engines.local.state import FORMAT
from penstock.version import VERSION


def test_a_saved_engine_of_format_2_is_refused() -> None:
    path = saved_engine(2)
    with pytest.raises(ps.StateError) as error:
        ps.restore(path)
    assert str(error.value) == (
        f"{path} was saved by Penstock 0.2.0 before its release in the format 2; this is Penstock "
        f"{VERSION}, which reads the format {FORMAT}\n"
        "Restore it with the version that saved it, or build the engine anew."
    )
