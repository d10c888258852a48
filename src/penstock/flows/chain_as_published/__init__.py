"""A join over a chain of OP-Blocks as published (Najafi 2019 §4.1–4.2)."""
