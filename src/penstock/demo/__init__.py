"""The two-dimensional band join of Teubner & Mueller 2011 (§6) on generated streams."""
