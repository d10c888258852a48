"""What every engine needs: the registry of streams and queries, and how input flows to blocks."""
