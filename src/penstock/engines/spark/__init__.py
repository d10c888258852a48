"""The Spark engine: blocks inside one long-lived Structured Streaming query."""
