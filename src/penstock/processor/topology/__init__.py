"""Topologies: which units a processor has, and how they are wired (Najafi 2019 §4.2)."""
