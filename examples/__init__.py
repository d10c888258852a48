"""Examples that run: ``python -m examples.trades.run``."""
