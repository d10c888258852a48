"""The Online Programmable Block (Najafi 2019 §4.1)."""
