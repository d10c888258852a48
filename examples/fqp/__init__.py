"""Case studies of the Flexible Query Processor (Najafi 2019 ch. 4) on topologies of OP-Blocks."""
