"""``python -m bench``: what its options refuse."""

from __future__ import annotations

import sys

import pytest
from bench.__main__ import HAVE_QUICK, main


def test_a_benchmark_without_a_quick_run_is_refused_before_any_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "pushes", "flows", "--quick"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    told = capsys.readouterr().err.splitlines()
    assert told[-1] == (
        "python -m bench: error: flows has no --quick; leave --quick out, or run "
        f"{', '.join(HAVE_QUICK)}"
    )
    assert not any(line.startswith("bench: pushes") for line in told)
