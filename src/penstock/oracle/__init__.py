"""The meaning of a program, by brute force in plain Python: slow, and meant to be read."""
