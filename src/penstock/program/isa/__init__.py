"""Instructions, programs, and the encoding of both."""
