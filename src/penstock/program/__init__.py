"""Programs: the instructions that a query becomes and that blocks run."""
