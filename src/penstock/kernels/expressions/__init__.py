"""Expressions evaluated over columns."""
