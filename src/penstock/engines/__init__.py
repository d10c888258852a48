"""Engines: where blocks live. Each has the same files inside."""
