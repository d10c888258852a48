"""Streams: schemas, events in arrival order, windows, punctuations, values and their text."""
