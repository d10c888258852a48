"""Long random trials, each with a seed and a count: ``python -m tests.campaigns NAME``."""
