"""The binary instruction set of topologies: words, their layout, and their text."""
