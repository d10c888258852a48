"""Continuous SQL over the user's own DataFrames."""
