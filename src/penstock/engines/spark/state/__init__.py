"""The state of a core in chunks, in Spark's state store."""
