"""Circular-MJ: a stage per stream on a circular bus."""
