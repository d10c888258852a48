"""Window aggregates over out-of-order streams."""
