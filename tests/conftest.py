"""How hard Hypothesis looks. ``ci`` is what make test uses, ``fuzz`` what make fuzz does."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A first example compiles a kernel, so a deadline or a slow start says nothing about a bug.
_COMMON = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}

settings.register_profile("ci", derandomize=False, **_COMMON)
settings.register_profile(
    "fuzz", max_examples=int(os.environ.get("PENSTOCK_FUZZ_EXAMPLES", "20000")), **_COMMON
)
settings.load_profile("ci")
