"""Starting an engine, and handing it what it cannot take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import penstock as ps

OPTIONS = (
    "The options are: batch_rows, buffer_rows, push_timeout, window_memory, compile_predicates, "
    "windows_required, order_column."
)


def refusal(action: Callable[[], object]) -> str:
    with pytest.raises(ps.InputError) as error:
        action()
    return str(error.value)


def test_an_unknown_option_is_named(tmp_path: Path) -> None:
    message = f"an engine has no option 'foo'\n{OPTIONS}"
    assert refusal(lambda: ps.connect("local", batch_rows=5, foo=1)) == message
    path = tmp_path / "saved"
    ps.connect("local").save(path)
    assert refusal(lambda: ps.restore(path, foo=1)) == message
    assert ps.restore(path, batch_rows=5).batch_rows == 5


@pytest.mark.parametrize("text", [None, 7, b"SELECT 1"])
def test_a_text_that_is_no_string_is_refused(text: object) -> None:
    message = f"{text!r} is no SQL text\nPass a string: 'SELECT ... FROM ...'."
    engine = ps.connect("local")
    assert refusal(lambda: engine.sql(text)) == message
    assert refusal(lambda: engine.install(text)) == message
    assert engine.position == 0
