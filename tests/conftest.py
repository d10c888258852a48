"""How hard Hypothesis looks. ``ci`` is what make test uses, ``fuzz`` what make fuzz does.

``ci`` draws the same examples every time, so that a change is judged by itself and not by luck;
``fuzz`` draws new ones for as long as one likes, and prints how to get a failing one again.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A first example compiles a kernel, so a deadline or a slow start says nothing about a bug.
_COMMON = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}

settings.register_profile("ci", derandomize=True, **_COMMON)
settings.register_profile(
    "fuzz", max_examples=int(os.environ.get("PENSTOCK_FUZZ_EXAMPLES", "20000")), **_COMMON
)
settings.load_profile("ci")
