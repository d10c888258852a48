"""The two-way window join."""
