"""The number of examples that Hypothesis tries, by its profile."""

from __future__ import annotations

from hypothesis import settings

ALL = 100
"""The examples of a test that names no number, under make test-all."""


def examples(count: int) -> settings:
    """``count`` examples under make test-all, fewer under make test, more under make fuzz."""
    here = settings().max_examples
    return settings(max_examples=max(2, min(count * here // ALL, max(count, here))))
