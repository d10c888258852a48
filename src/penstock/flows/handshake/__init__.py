"""Handshake join (Teubner & Mueller 2011 §3–5)."""
