"""The command line: ``penstock run | replay | explain | demo | checkpoint | topology``."""
