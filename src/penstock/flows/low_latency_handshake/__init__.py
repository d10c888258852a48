"""Low-latency handshake join (Najafi 2019 §3.1, §5.3.1)."""
