"""The processor: a topology of blocks, to which queries are assigned (Najafi 2019 ch. 4)."""
