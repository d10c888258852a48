"""Every script gives the rows and letters that it has always given, on every engine and flow."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conformance.digests import EMBEDDED, SCRIPTS, SPARK, digests_of, kept, on_embedded
from tests.flows.ways import WAYS

KEPT = kept()


def test_every_script_has_digests() -> None:
    assert list(KEPT) == [path.stem for path in SCRIPTS]
    places = {place for script in KEPT.values() for some in script.values() for place in some}
    assert places == {EMBEDDED, SPARK, *map(str, WAYS)}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_gives_what_it_has_always_given(path: Path) -> None:
    assert digests_of(path.read_text(encoding="utf-8")) == KEPT[path.stem], (
        "if an answer was meant to change: python -m tests.conformance.digests"
    )


def test_another_row_position_or_reason_is_another_digest() -> None:
    script = "stream R (t int64)\ninstall q: SELECT t FROM R\nR: 1\nR: NULL\nR: 'x'\nend\n"
    others = [
        script.replace("R: 1", "R: 2"),
        script.replace("R: 1", "R: 1\npunctuate R.t: 0"),
        script.replace("'x'", "'y'"),
        script.replace("install q", "install p"),
    ]
    assert len({on_embedded(one) for one in (script, *others)}) == len(others) + 1
