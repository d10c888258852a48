"""Finding the partners of a tuple: nested loop, indexes, sweeps."""
