"""The number of examples that Hypothesis tries, by its profile."""

from __future__ import annotations

from hypothesis import settings

CI = 100
"""The examples of a test that names no number, under make test."""


def examples(count: int) -> settings:
    """``count`` examples under make test, fewer under make check, up to 20,000 under make fuzz."""
    here = settings().max_examples
    return settings(max_examples=max(2, min(count * here // CI, max(count, here))))
