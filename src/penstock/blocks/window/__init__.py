"""The tuples of a window: stored, ranked, expired."""
