"""``penstock run`` and ``ps.sql``: a query over bounded streams."""
