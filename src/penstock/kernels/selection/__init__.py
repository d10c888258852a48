"""Kernels of selections that are evaluated together: sets of values, and places among constants."""
