"""The Flexible Query Processor: what stands around its OP-Blocks (Najafi 2019 §4.2)."""
