"""Blocks: consume runs of tuples, produce runs of tuples. They know nothing of engines."""
