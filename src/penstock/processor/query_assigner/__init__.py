"""Query assignment: which blocks of a topology serve a query (Najafi 2019 §4.2)."""
