"""The code that runs in a core of a Spark query."""
