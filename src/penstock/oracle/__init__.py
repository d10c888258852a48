"""The meaning of every query, by brute force in plain Python: slow, and meant to be read."""
