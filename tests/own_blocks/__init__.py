"""Blocks that are defined outside the package."""
