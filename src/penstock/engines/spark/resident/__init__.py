"""The resident processor: one streaming query that reads the log, and its driver."""
