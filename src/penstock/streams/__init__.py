"""Streams: schemas, events in arrival order, windows, sources and sinks."""
