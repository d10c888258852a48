"""Stashed-MJ: a two-stage pipeline for joins of three streams, with a stash for one pair."""
