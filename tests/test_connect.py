"""Starting an engine, and the inputs it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import penstock as ps

OPTIONS = (
    "The options are: batch_rows, buffer_rows, push_timeout, window_memory, compile_predicates, "
    "windows_required, order_column, topology."
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


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("batch_row", "Did you mean batch_rows? "),
        ("push_timout", "Did you mean push_timeout? "),
        ("cores", "It is an option of engine.install(sql, cores=...). "),
        ("flow", "It is an option of engine.install(sql, flow=...). "),
        ("memory", ""),
    ],
)
def test_an_error_says_which_function_takes_an_option(option: str, hint: str) -> None:
    message = f"an engine has no option {option!r}\n{hint}{OPTIONS}"
    assert refusal(lambda: ps.connect("local", **{option: 2})) == message  # type: ignore[call-overload]


@pytest.mark.parametrize("text", [None, 7, b"SELECT 1"])
def test_a_text_that_is_no_string_is_refused(text: object) -> None:
    message = f"{text!r} is no SQL text\nPass a string: 'SELECT ... FROM ...'."
    engine = ps.connect("local")
    assert refusal(lambda: engine.sql(text)) == message
    assert refusal(lambda: engine.install(text)) == message
    assert engine.position == 0


def test_a_topology_is_a_name_or_a_file_or_a_topology(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(ps.topology("fqp:chain:2:8").to_toml(), encoding="utf-8")
    for given in ("fqp:chain:2:8", str(path), path, ps.topology("fqp:chain:2:8")):
        with ps.connect("local", topology=given) as engine:
            assert engine.topology == ps.topology("fqp:chain:2:8")
    with pytest.raises(ps.InputError) as caught:
        ps.connect("local", topology=4)  # type: ignore[call-overload]
    assert str(caught.value) == (
        "a topology is given as int\n"
        "Give the name of a preset, fqp:chain:4, the path of a TOML file, or a Topology."
    )
