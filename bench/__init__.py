"""Benchmarks: one file per figure. ``python -m bench`` runs them all and writes JSON."""
