"""SplitJoin (Najafi 2019 §5.1–5.2)."""
