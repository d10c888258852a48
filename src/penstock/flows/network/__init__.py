"""Networks of units, the FIFOs between them, and the drivers that run any of them."""
